// Run the segmentation of a page of `modtok explore`:
// node run_page.mjs PAGE < requests
// A request is a line of JSON: [tokenizer, columns or null, text]; the answer, a line with its ids.
import { readFileSync } from "node:fs";

const page = readFileSync(process.argv[2], "utf-8");
const part = (id) => page.split(`id="${id}"`)[1].split(">").slice(1).join(">").split("</script>")[0];
const load = new Function(`${part("segment")}; return loadTokenizers;`)();
const tokenizers = await load(JSON.parse(part("payload")));
const answers = [];
for (const line of readFileSync(0, "utf-8").split("\n")) {
  if (!line) continue;
  const [tokenizer, columns, text] = JSON.parse(line);
  answers.push(JSON.stringify(tokenizers[tokenizer].encode(text, columns)));
}
process.stdout.write(answers.join("\n") + "\n");
