"use strict";
// The native core of modtok, compiled to WebAssembly, on the tables of the page: it gives the ids of
// `modtok encode`. Tables are numbers in byte planes (all lowest bytes, then all second bytes, ...),
// which compress better.

async function inflate(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Planes {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  numbers(count, width, RowKind = Int32Array) {
    const values = new RowKind(count);
    const bytes = new Uint8Array(values.buffer);
    for (let plane = 0; plane < width; plane++) {
      const from = this.take(count);
      for (let i = 0; i < count; i++) bytes[RowKind.BYTES_PER_ELEMENT * i + plane] = from[i];
    }
    return values;
  }
}

const encoder = new TextEncoder();
const latin = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

// --- the core's memory ---

let core = null;
// Items at an address; a view ends with the next allocation.
const items = (RowKind, place, count) => new RowKind(core.memory.buffer, place, count);
function room(bytes) {
  const place = core.malloc(bytes + 64); // the core reads behind a text
  if (!place) throw new Error("no memory");
  return place;
}
function put(values) {
  const place = room(values.byteLength);
  items(values.constructor, place, values.length).set(values);
  return place;
}

// --- segmentations: `lengths` of tokens, and the fields of an mt_segmenter for those that `has` ---

// Merges of bytes, or of characters with bytes for those without a token. A set of languages has the
// merges of each, or all `between` its tokens.
class Merges {
  constructor(meta, planes) {
    this.byteIds = Int32Array.from(meta.bytes);
    this.rows = [0, 1, 2].map(() => planes.numbers(meta.merges, meta.width));
    const points = planes.numbers(meta.characters || 0, 3);
    const ids = planes.numbers(meta.characters || 0, meta.width);
    this.characters = Array.from(points, (point, i) => [point, ids[i]]);
    this.whole = new Map(meta.whole); // words that are tokens before anything is merged
    if (!meta.between) this.mergeBits = planes.take(meta.merges * meta.planes);
    this.lengths = new Int32Array(meta.ids || meta.size);
    for (const id of this.byteIds) this.lengths[id] = 1;
    for (const [point, id] of this.characters) {
      const text = String.fromCodePoint(point).replace("\u2581", " "); // how models write a space
      this.lengths[id] = encoder.encode(text).length;
    }
    const [left, right, result] = this.rows;
    result.forEach((id, i) => (this.lengths[id] = this.lengths[left[i]] + this.lengths[right[i]]));
    for (const [word, id] of this.whole) this.lengths[id] = word.length;
  }
  fields(chosen, has) {
    const kept = [];
    for (let i = 0; i < this.rows[0].length; i++) {
      const row = this.rows.map((column) => column[i]);
      if (this.mergeBits ? chosen.any(this.mergeBits, i) : row.every(has)) kept.push(...row);
    }
    const merges = put(Int32Array.from(kept));
    const found = {
      pairs: core.mt_pairs_new(merges, BigInt(kept.length / 3)),
      byte_ids: put(this.byteIds),
    };
    core.free(merges);
    if (this.characters.length) {
      const ids = new Int32Array(0x110000).fill(-1);
      for (const [point, id] of this.characters) if (has(id)) ids[point] = id;
      found.characters = put(ids);
    }
    return found;
  }
}

// Unigram and fewest tokens: the best path over the tokens from `first` on.
class Search {
  constructor(meta, planes) {
    this.meta = meta;
    this.lengths = planes.numbers(meta.size, meta.width);
    const ids = [...this.lengths.keys()].filter((id) => id >= meta.first && this.lengths[id]);
    const offsets = new BigInt64Array(ids.length + 1);
    ids.forEach((id, i) => (offsets[i + 1] = offsets[i] + BigInt(this.lengths[id])));
    const data = put(planes.take(Number(offsets.at(-1))));
    const parts = [data, put(offsets), put(BigInt64Array.from(ids, BigInt)), room(8)];
    const trie = core.mt_trie_new(parts[0], parts[1], BigInt(ids.length), parts[2], parts[3]);
    this.units = core.mt_trie_units(trie, parts[3]);
    parts.forEach(core.free);
    const RowKind = meta.scores === 8 ? Float64Array : Int32Array;
    if (meta.scores) this.scores = planes.numbers(meta.size, meta.scores, RowKind);
    this.counts = (meta.counts || []).map(([members, width]) => planes.numbers(members, width, BigInt64Array));
  }
  fields(chosen, has) {
    const { first, size, each, penalty } = this.meta;
    const scores = Float64Array.from(this.scores || this.likelihoods(chosen));
    const active = Uint8Array.from(scores, (_, id) => id >= first && has(id));
    const least = scores.reduce((a, b, id) => (active[id] && b < a ? b : a), Infinity);
    return {
      byte_ids: put(new Int32Array(256).fill(-1)), // `tokens` spells them
      units: this.units,
      scores: put(scores),
      active: put(active),
      unknown: (least < Infinity ? least : 0) - penalty,
      each,
      fallback: 1 - each,
    };
  }
  likelihoods(chosen) {
    const totals = new BigInt64Array(this.meta.size);
    this.counts.forEach((counts, column) => {
      if (!chosen.includes(column)) return;
      let at = 0;
      for (let id = 0; id < totals.length; id++) if (chosen.tokenizer.owns(column, id)) totals[id] += counts[at++];
    });
    const [from, to] = [put(totals), room(4 * totals.length)];
    core.mt_likelihoods(from, BigInt(totals.length), to);
    const found = items(Int32Array, to, totals.length).slice();
    [from, to].forEach(core.free);
    return found;
  }
}

// Changes of a text before it is split into words, by name.
const REWRITES = {
  nfc: (text) => text.normalize("NFC"),
  prefix: (text) => text && " " + text,
  space: (text) => (!text || text.startsWith(" ") ? text : " " + text),
};

// The tokens of the languages with some columns, all for null, as an mt_segmenter.
class Selection {
  constructor(tokenizer, columns) {
    Object.assign(this, { tokenizer, columns });
    const { meta, kind, bits } = tokenizer;
    this.mask = new Uint8Array(meta.planes);
    for (const column of columns || []) this.mask[column >> 3] |= 1 << (column & 7);
    const has = (id) => this.any(bits, id);
    this.fields = kind.fields(this, has);
    const { unknown = 0, each = 0, fallback = 0, ...places } = this.fields;
    const names = ["pairs", "byte_ids", "characters", "", "", "units", "scores", "active"];
    this.place = put(new Uint8Array(80));
    items(Uint32Array, this.place, 8).set(names.map((name) => places[name] || 0));
    items(Float64Array, this.place + 40, 1)[0] = unknown;
    items(BigInt64Array, this.place + 48, 2).set([BigInt(each), BigInt(fallback)]);
    // Added tokens are found before a text is split, at each place the longest. Special ones (-1)
    // are text, but no other begins within them.
    const added = (meta.added || []).filter(([, id]) => id < 0 || has(id));
    const texts = added.map(([text]) => text).sort((a, b) => b.length - a.length);
    const escaped = texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|\/]/g, "\\$&"));
    this.added = new Map(added);
    if (added.some(([, id]) => id >= 0)) this.pattern = new RegExp(escaped.join("|"), "gu");
  }
  free() {
    const { pairs, byte_ids, characters, scores, active } = this.fields;
    core.mt_pairs_free(pairs || 0);
    for (const each of [byte_ids, characters, scores, active, this.place]) core.free(each || 0);
  }
  includes(column) {
    return this.columns === null || this.columns.includes(column);
  }
  // Whether one of the columns is set in a row of bits, which are in planes of eight columns.
  any(bits, row) {
    const rows = bits.length / this.mask.length;
    return this.columns === null || this.mask.some((byte, plane) => byte & bits[plane * rows + row]);
  }
  // [id, bytes] of each token of a text.
  segment(text) {
    const found = [];
    let from = 0;
    for (const match of this.pattern ? text.matchAll(this.pattern) : []) {
      const id = this.added.get(match[0]);
      if (id < 0) continue;
      found.push(this.words(text.slice(from, match.index)), [[id, encoder.encode(match[0])]]);
      from = match.index + match[0].length;
    }
    return [...found, this.words(text.slice(from))].flat();
  }
  words(text) {
    const { meta, kind } = this.tokenizer;
    if (meta.spaced) text = text.replaceAll("\u2581", " "); // how models write a space
    if (meta.rewrite) text = REWRITES[meta.rewrite](text);
    const bytes = encoder.encode(text);
    const place = put(bytes);
    const ends = this.tokenizer.ends(bytes, place);
    const cuts = put(BigInt64Array.from([0, ...ends], BigInt)); // a word ends where the next begins
    const [ids, offsets] = [room(4 * bytes.length), room(8 * (ends.length + 1))];
    const status = core.mt_segment(this.place, place, BigInt(ends.length), cuts, cuts + 8, ids, offsets);
    if (status) throw new Error("no memory");
    const to = Array.from(items(BigInt64Array, offsets, ends.length + 1), Number);
    const all = items(Int32Array, ids, to.at(-1)).slice();
    [place, cuts, ids, offsets].forEach(core.free);
    return ends.flatMap((end, i) => {
      const word = bytes.subarray(i ? ends[i - 1] : 0, end);
      const whole = kind.whole?.get(latin(word));
      const isWhole = whole !== undefined && this.any(this.tokenizer.bits, whole);
      return this.tokens(isWhole ? [whole] : all.subarray(to[i], to[i + 1]), word);
    });
  }
  // Of one word. A run of characters without a token, -1 for each byte, is one unknown token, or is
  // spelled in bytes; where these have no token either, they are left out.
  tokens(ids, bytes) {
    const { unknown, lacking, bytes: byteIds } = this.tokenizer.meta;
    const { lengths } = this.tokenizer.kind;
    if (lacking) bytes = bytes.filter((byte) => byteIds[byte] >= 0);
    const found = [];
    for (let i = 0, at = 0, end; i < ids.length; at = end) {
      const first = i;
      for (end = at; i < ids.length && (ids[i] < 0 || ids[i] === unknown); i++) {
        end += ids[i] < 0 ? 1 : lengths[unknown];
      }
      if (i === first) {
        end += lengths[ids[i]];
        found.push([ids[i++], bytes.subarray(at, end)]);
      } else if (byteIds && (i > first + 1 || ids[first] < 0)) {
        for (let b = at; b < end; b++) found.push([byteIds[bytes[b]], bytes.subarray(b, b + 1)]);
      } else found.push([unknown, bytes.subarray(at, end)]);
    }
    return found;
  }
}

class Tokenizer {
  constructor(meta, bytes) {
    meta.languages ||= [];
    meta.planes = Math.ceil(meta.languages.length / 8);
    const planes = new Planes(bytes);
    this.kind = new { merges: Merges, search: Search }[meta.kind](meta, planes);
    this.bits = planes.take(meta.size * meta.planes);
    Object.assign(this, { meta, name: meta.name, languages: meta.languages });
    for (const [text, id] of meta.added || []) {
      if (id >= 0) this.kind.lengths[id] = encoder.encode(text).length;
    }
    this.selections = new Map();
  }
  // Tables are kept for the two selections that the page shows.
  select(columns) {
    const key = JSON.stringify(columns);
    const found = this.selections.get(key) || new Selection(this, columns);
    this.selections.delete(key); // the latest is the last
    this.selections.set(key, found);
    for (const [old, each] of [...this.selections].slice(0, -2)) {
      each.free();
      this.selections.delete(old);
    }
    return found;
  }
  // Ends of the words of a text; without a splitter, each space begins one.
  ends(bytes, place) {
    const { splitter } = this.meta;
    const size = bytes.length;
    if (splitter === null) {
      return [...bytes.keys(), size].filter((i) => i && (i === size || bytes[i] === 0x20));
    }
    const ends = room(8 * size);
    const [pretokenizer] = items(Uint32Array, core.mt_pretokenizers() + 4 * splitter, 1);
    const words = Number(core.mt_split(pretokenizer + 24, place, BigInt(size), ends));
    const found = Array.from(items(BigInt64Array, ends, words), Number);
    core.free(ends);
    return found;
  }
  encode(text, columns) {
    return this.select(columns).segment(text).map(([id]) => id);
  }
  sizeOf(columns) {
    const chosen = this.select(columns);
    let size = 0;
    for (let id = 0; id < this.meta.size; id++) if (chosen.any(this.bits, id)) size++;
    return size;
  }
  owns(column, id) {
    return this.bits[(column >> 3) * this.meta.size + id] & (1 << (column & 7));
  }
  // Columns of the languages that have a token.
  owners(id) {
    return [...this.languages.keys()].filter((column) => this.owns(column, id));
  }
}

// A token of whole characters is text; tokens that share a character show their bytes.
const strict = new TextDecoder("utf-8", { fatal: true });
function shown(bytes) {
  try {
    return [strict.decode(bytes), true];
  } catch {
    return [Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" "), false];
  }
}

// What a card shows: the number of all tokens, the size of the vocabulary, [id, text, whether of
// whole characters, columns of its languages] of the first tokens, and for each chosen column the
// number of tokens that no other chosen language has.
function answer(tokenizer, columns, text, limit) {
  const tokens = tokenizer.select(columns).segment(text);
  const owners = new Map();
  const own = new Map();
  for (const [id] of tokens) {
    if (!owners.has(id)) owners.set(id, tokenizer.owners(id));
    const mine = owners.get(id).filter((column) => columns === null || columns.includes(column));
    if (mine.length === 1) own.set(mine[0], (own.get(mine[0]) || 0) + 1);
  }
  return {
    count: tokens.length,
    size: tokenizer.sizeOf(columns),
    first: tokens.slice(0, limit).map(([id, bytes]) => [id, ...shown(bytes), owners.get(id)]),
    own: [...own],
  };
}

// The worker of the page: a message is [number, call, ...arguments]; so is its answer, with an error.
let workers = [];
const CALLS = {
  load: async (payload) => void (workers = await loadTokenizers(payload)),
  drop: (name, text, patterns) => workers.push(droppedTokenizer(name, text, patterns)) - 1,
  answer: (tokenizer, ...rest) => answer(workers[tokenizer], ...rest),
};
async function serveCalls({ data: [number, call, ...rest] }) {
  try {
    postMessage([number, await CALLS[call](...rest), null]);
  } catch (error) {
    postMessage([number, null, error.message]);
  }
}

async function loadTokenizers(payload) {
  core = (await WebAssembly.instantiate(await inflate(payload.core))).instance.exports;
  core._initialize();
  core.mt_start();
  const found = [];
  for (const { meta, data } of payload.tokenizers) found.push(new Tokenizer(meta, await inflate(data)));
  return found;
}
