// Run the segmentation of a page of `modtok explore`:
// node run_page.mjs PAGE < requests
// A request is a line of JSON: [tokenizer, columns or null, text], answered by a line with its ids;
// {"drop": name, "text": content of a file}, by the number of the new tokenizer or what is wrong;
// or {"card": [tokenizer, columns or null, text, limit]}, by what a card shows.
import { readFileSync } from "node:fs";

const page = readFileSync(process.argv[2], "utf-8");
const part = (id) => page.split(`id="${id}"`)[1].split(">").slice(1).join(">").split("</script>")[0];
const { loadTokenizers, droppedTokenizer, answer } = new Function(
  `${part("segment")}; return { loadTokenizers, droppedTokenizer, answer };`
)();
const payload = JSON.parse(part("payload"));
const tokenizers = await loadTokenizers(payload);

function answered(request) {
  if (request.drop) {
    try {
      return tokenizers.push(droppedTokenizer(request.drop, request.text, payload.patterns)) - 1;
    } catch (error) {
      return error.message;
    }
  }
  if (request.card) return answer(tokenizers[request.card[0]], ...request.card.slice(1));
  const [tokenizer, columns, text] = request;
  return tokenizers[tokenizer].encode(text, columns);
}

const answers = [];
for (const line of readFileSync(0, "utf-8").split("\n")) {
  if (line) answers.push(JSON.stringify(answered(JSON.parse(line))));
}
process.stdout.write(answers.join("\n") + "\n");
