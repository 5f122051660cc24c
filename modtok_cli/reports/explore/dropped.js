// A tokenizer.json that was dropped on the page: BPE of bytes, as modtok, GPT-2, Llama 3 and Qwen have it.

// The byte of each letter of GPT-2's alphabet.
const BYTE_OF = new Map();
for (let byte = 0, next = 256; byte < 256; byte++) {
  const printed = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  BYTE_OF.set(String.fromCodePoint(printed ? byte : next++), byte);
}

// The pattern by which a pre-tokenizer splits; "" for one that is not known.
function patternOf(splits, patterns) {
  const steps = splits?.type === "Sequence" ? splits.pretokenizers : [splits];
  const last = steps.at(-1);
  if (last?.type !== "ByteLevel" || last.add_prefix_space) return "";
  const [first, ...more] = steps.slice(0, -1);
  if (more.length) return "";
  if (!first) return last.use_regex === false ? "" : patterns.gpt2;
  if (first.type === "Digits" && first.individual_digits && last.use_regex !== false) return patterns.smollm;
  const isolated = first.type === "Split" && first.behavior === (first.invert ? "Removed" : "Isolated");
  return isolated && last.use_regex === false ? first.pattern.Regex || "" : "";
}

// As byte planes, which the classes of segment.js read.
function planesOf(columns) {
  const size = columns[0].length;
  const planes = new Uint8Array(4 * columns.length * size);
  columns.flat().forEach((value, i) => {
    for (let plane = 0; plane < 4; plane++) {
      planes[(4 * Math.floor(i / size) + plane) * size + (i % size)] = value >> (8 * plane);
    }
  });
  return planes;
}

// `patterns`: name -> pattern of the core's pre-tokenizers, in its order.
function droppedTokenizer(name, text, patterns) {
  const { model, normalizer, pre_tokenizer: splits, added_tokens: added = [] } = JSON.parse(text);
  const refuse = (why) => {
    throw new Error(`${name}: ${why}; modtok explore TOKENIZER ${name} may show it`);
  };
  if (model?.type !== "BPE" || model.byte_fallback) refuse("the page takes a tokenizer.json with BPE of bytes");
  const splitter = Object.values(patterns).indexOf(patternOf(splits, patterns) || null);
  if (splitter < 0) refuse("its pre-tokenizer is not one of modtok's");
  if (normalizer && normalizer.type !== "NFC") refuse("it changes texts");
  const odd = added.some((each) => !each.special && (each.single_word || each.lstrip || each.rstrip));
  if (odd || model.dropout || model.continuing_subword_prefix || model.end_of_word_suffix) refuse("it has options that the page lacks");
  const vocabulary = new Map(Object.entries(model.vocab));
  const columns = [[], [], []];
  for (const merge of model.merges) {
    const parts = typeof merge === "string" ? merge.split(" ") : merge;
    [...parts, parts.join("")].forEach((part, side) => columns[side].push(vocabulary.get(part)));
  }
  const pairs = new Set(columns[0].map((left, i) => `${left} ${columns[1][i]}`));
  if (columns.flat().includes(undefined) || pairs.size < columns[0].length) refuse("its merges are damaged");
  const bytes = new Array(256).fill(-1);
  for (const [letter, byte] of BYTE_OF) bytes[byte] = vocabulary.get(letter) ?? -1;
  const ids = [...vocabulary.values(), ...added.map((each) => each.id)];
  const meta = {
    kind: "merges",
    name,
    splitter,
    bytes,
    merges: model.merges.length,
    width: 4,
    ids: ids.reduce((most, id) => Math.max(most, id), -1) + 1, // too many to be arguments
    size: new Set(ids).size,
    between: true,
    rewrite: normalizer ? "nfc" : "",
    lacking: bytes.includes(-1),
    added: added.map((each) => [each.content, each.special ? -1 : each.id]),
  };
  const found = new Tokenizer(meta, columns[0].length ? planesOf(columns) : new Uint8Array());
  if (model.ignore_merges) {
    const spelled = ([letters, id]) => [Array.from(letters, (letter) => BYTE_OF.get(letter)), id];
    const known = [...vocabulary].map(spelled).filter(([spelling]) => !spelling.includes(undefined));
    found.kind.whole = new Map(known.map(([spelling, id]) => [latin(spelling), id]));
    for (const [spelling, id] of known) found.kind.lengths[id] = spelling.length;
  }
  return found;
}
