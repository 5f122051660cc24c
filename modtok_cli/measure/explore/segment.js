"use strict";
// Segmentation of modtok in JavaScript. It gives the ids of `modtok encode`.
//
// A tokenizer is {meta, planes}: `meta` is JSON, `planes` are unsigned integers stored as byte
// planes (all lowest bytes, then all second bytes, ...), which compress better.

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
    const found = this.bytes.subarray(this.at, this.at + length);
    this.at += length;
    return found;
  }
  integers(count, width) {
    const values = new Int32Array(count);
    for (let plane = 0; plane < width; plane++) {
      const bytes = this.take(count);
      for (let i = 0; i < count; i++) values[i] |= bytes[i] << (8 * plane);
    }
    return values;
  }
  // Whole numbers below 2^53.
  large(count, width) {
    const values = new Float64Array(count);
    for (let plane = 0; plane < width; plane++) {
      const bytes = this.take(count);
      for (let i = 0; i < count; i++) values[i] += bytes[i] * 2 ** (8 * plane);
    }
    return values;
  }
  floats(count) {
    const bytes = new Uint8Array(8 * count);
    for (let plane = 0; plane < 8; plane++) {
      const from = this.take(count);
      for (let i = 0; i < count; i++) bytes[8 * i + plane] = from[i];
    }
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: count }, (_, i) => view.getFloat64(8 * i, true));
  }
  // Rows of `columns` bits, as ceil(columns / 8) planes.
  bits(count, columns) {
    return Array.from({ length: Math.ceil(columns / 8) }, () => this.take(count));
  }
}

// The regular expression of a pre-tokenizer. Classes are written out from modtok's table of code
// points, because engines differ in their version of Unicode and in what \s is.
function compilePattern(pattern, classes) {
  let inside = false;
  let source = "";
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i);
    const named = rest.match(/^\\p\{([LMN])\}|^\\([sS])/);
    if (named) {
      const ranges = classes[named[1] || named[2]];
      source += inside ? ranges : "[" + ranges + "]";
      i += named[0].length - 1;
      continue;
    }
    if (pattern[i] === "\\") {
      source += pattern[i] + pattern[i + 1];
      i++;
      continue;
    }
    if (pattern[i] === "[") inside = true;
    if (pattern[i] === "]") inside = false;
    source += pattern[i];
  }
  return new RegExp(source, "gu");
}

// Bits of a set of columns, one byte for each plane.
function maskOf(columns, planes) {
  const mask = new Uint8Array(planes);
  for (const column of columns) mask[column >> 3] |= 1 << (column & 7);
  return mask;
}

function anyBit(planes, mask, row) {
  for (let p = 0; p < planes.length; p++) if (planes[p][row] & mask[p]) return true;
  return false;
}

// BPE by merges, of bytes or of characters with bytes for those without a token; a subset of
// languages is a mask over the merges, or has all merges `between` its tokens.
class Merges {
  constructor(meta, planes) {
    this.byteIds = Int32Array.from(meta.bytes);
    const width = meta.width;
    this.left = planes.integers(meta.merges, width);
    this.right = planes.integers(meta.merges, width);
    this.result = planes.integers(meta.merges, width);
    const points = planes.integers(meta.characters || 0, 3);
    const singles = planes.integers(meta.characters || 0, width);
    this.characters = meta.characters ? new Map() : null;
    points.forEach((point, i) => this.characters.set(point, singles[i]));
    const columns = (meta.languages || []).length;
    this.between = Boolean(meta.between);
    this.mergeBits = this.between ? [] : planes.bits(meta.merges, columns);
    this.tokenBits = planes.bits(meta.size, columns);
    this.lengths = new Int32Array(meta.ids || meta.size);
    for (const id of this.byteIds) this.lengths[id] = 1;
    // A space is a token of one byte, also where the model writes it as "▁".
    points.forEach((point, i) => {
      const spaced = point === 0x20 || point === 0x2581;
      this.lengths[singles[i]] = spaced ? 1 : characterSize(point);
    });
    for (let rank = 0; rank < meta.merges; rank++) {
      const parts = this.lengths[this.left[rank]] + this.lengths[this.right[rank]];
      this.lengths[this.result[rank]] = parts;
    }
    let slots = 1024;
    while (slots < 2 * meta.merges) slots *= 2;
    this.slots = new Int32Array(slots);
    for (let rank = 0; rank < meta.merges; rank++) {
      let slot = this.slot(this.left[rank], this.right[rank]);
      while (this.slots[slot]) slot = (slot + 1) & (slots - 1);
      this.slots[slot] = rank + 1;
    }
  }
  slot(left, right) {
    const hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    return (hash ^ (hash >>> 15)) & (this.slots.length - 1);
  }
  // Rank of the merge of two tokens under a mask; -1 if there is none.
  rank(left, right, mask) {
    for (let slot = this.slot(left, right); this.slots[slot]; ) {
      const rank = this.slots[slot] - 1;
      if (this.left[rank] === left && this.right[rank] === right) {
        return mask === null || this.has(rank, mask) ? rank : -1;
      }
      slot = (slot + 1) & (this.slots.length - 1);
    }
    return -1;
  }
  has(rank, mask) {
    if (!this.between) return anyBit(this.mergeBits, mask, rank);
    const parts = [this.left[rank], this.right[rank], this.result[rank]];
    return parts.every((id) => anyBit(this.tokenBits, mask, id));
  }
  // What merging begins with.
  symbols(bytes, mask) {
    if (this.characters === null) return Array.from(bytes, (byte) => this.byteIds[byte]);
    const ids = [];
    for (let at = 0; at < bytes.length; ) {
      const size = characterLength(bytes[at]);
      const id = this.characters.get(codePoint(bytes, at, size));
      if (id !== undefined && (mask === null || anyBit(this.tokenBits, mask, id))) ids.push(id);
      else for (let i = at; i < at + size; i++) ids.push(this.byteIds[bytes[i]]);
      at += size;
    }
    return ids;
  }
  word(bytes, mask) {
    const ids = this.symbols(bytes, mask);
    const ranks = [];
    for (let i = 0; i + 1 < ids.length; i++) ranks.push(this.rank(ids[i], ids[i + 1], mask));
    for (;;) {
      let best = -1;
      for (let i = 0; i < ranks.length; i++) {
        if (ranks[i] >= 0 && (best < 0 || ranks[i] < ranks[best])) best = i;
      }
      if (best < 0) return ids;
      ids.splice(best, 2, this.result[ranks[best]]);
      ranks.splice(best, 1);
      if (best > 0) ranks[best - 1] = this.rank(ids[best - 1], ids[best], mask);
      if (best < ranks.length) ranks[best] = this.rank(ids[best], ids[best + 1], mask);
    }
  }
}

// Byte strings with ranks (tiktoken): the adjacent parts whose concatenation has the lowest rank.
class Ranks {
  constructor(meta, planes) {
    const lengths = planes.integers(meta.tokens, 2);
    const ids = planes.integers(meta.tokens, 3);
    this.first = meta.first;
    this.ranks = new Map();
    this.lengths = new Int32Array(meta.size);
    for (let i = 0; i < meta.tokens; i++) {
      this.ranks.set(latin(planes.take(lengths[i])), ids[i]);
      this.lengths[ids[i] + this.first] = lengths[i];
    }
    this.tokenBits = [];
  }
  word(bytes) {
    const text = latin(bytes);
    if (this.ranks.has(text)) return [this.ranks.get(text) + this.first];
    const ends = Array.from(text, (_, i) => i + 1);
    const rank = (i) => {
      const start = i ? ends[i - 1] : 0;
      return this.ranks.get(text.slice(start, ends[i + 1])) ?? -1;
    };
    const ranks = ends.slice(1).map((_, i) => rank(i));
    for (;;) {
      let best = -1;
      for (let i = 0; i < ranks.length; i++) {
        if (ranks[i] >= 0 && (best < 0 || ranks[i] < ranks[best])) best = i;
      }
      if (best < 0) break;
      ends.splice(best, 1);
      ranks.splice(best, 1);
      if (best > 0) ranks[best - 1] = rank(best - 1);
      if (best < ranks.length) ranks[best] = rank(best);
    }
    return ends.map((end, i) => this.ranks.get(text.slice(i ? ends[i - 1] : 0, end)) + this.first);
  }
}

// Unigram and fewest tokens: of all paths the one with the fewest `each` x tokens, then with the
// greatest sum of scores, as `learn.viterbi_kernel` finds it.
class Search {
  constructor(meta, planes) {
    this.meta = meta;
    this.lengths = planes.integers(meta.size, meta.width);
    this.ids = new Map();
    this.longest = 1;
    for (let id = 0; id < meta.size; id++) {
      const text = latin(planes.take(this.lengths[id]));
      if (id < meta.first) continue;
      this.ids.set(text, id);
      this.longest = Math.max(this.longest, text.length);
    }
    this.scores = null;
    if (meta.scores === 8) this.scores = planes.floats(meta.size);
    else if (meta.scores) this.scores = planes.large(meta.size, meta.scores);
    this.tokenBits = planes.bits(meta.size, (meta.languages || []).length);
    this.counts = meta.counts && planes.large(meta.members.reduce((a, b) => a + b), meta.counts);
  }
  // Before words of the languages with these columns; null for all.
  prepare(columns, mask) {
    const { meta } = this;
    if (this.counts) this.scores = this.likelihoods(columns);
    let least = Infinity;
    for (let id = meta.first; id < meta.size; id++) {
      const active = mask === null || anyBit(this.tokenBits, mask, id);
      if (active && this.scores[id] < least) least = this.scores[id];
    }
    this.unknown = (least === Infinity ? 0 : least) - meta.penalty;
  }
  // floor(16 log2(1 + 2 n)) for the sum n of the counts of the languages.
  likelihoods(columns) {
    const { meta } = this;
    const totals = new Float64Array(meta.size);
    let at = 0;
    meta.members.forEach((members, column) => {
      if (columns === null || columns.includes(column)) {
        const bits = this.tokenBits[column >> 3];
        let place = at;
        for (let id = 0; id < meta.size; id++) {
          if (bits[id] & (1 << (column & 7))) totals[id] += this.counts[place++];
        }
      }
      at += members;
    });
    const view = new DataView(new ArrayBuffer(8));
    return totals.map((total) => {
      view.setFloat64(0, 2 * total + 1);
      const exponent = (view.getUint16(0) >> 4) - 1023;
      const mantissa = (2 * total + 1) / 2 ** exponent;
      return 16 * exponent + meta.steps.findLastIndex((step) => step <= mantissa);
    });
  }
  word(bytes, mask) {
    const { each } = this.meta;
    const text = latin(bytes);
    const size = text.length;
    const totals = new Float64Array(size + 1);
    const tokens = new Int32Array(size + 1);
    const origins = new Int32Array(size + 1).fill(-1);
    const last = new Int32Array(size + 1);
    const reach = (from, to, number, score, id) => {
      const better =
        origins[to] < 0 || number < tokens[to] || (number === tokens[to] && score > totals[to]);
      if (!better) return;
      totals[to] = score;
      tokens[to] = number;
      origins[to] = from;
      last[to] = id;
    };
    for (let i = 0; i < size; i++) {
      if (i && origins[i] < 0) continue;
      const whole = Math.min(i + characterLength(bytes[i]), size);
      let single = false;
      for (let j = i + 1; j <= Math.min(i + this.longest, size); j++) {
        const id = this.ids.get(text.slice(i, j));
        if (id === undefined || (mask !== null && !anyBit(this.tokenBits, mask, id))) continue;
        if (j === whole) single = true;
        reach(i, j, tokens[i] + each, totals[i] + this.scores[id], id);
      }
      if (!each && !single) reach(i, whole, tokens[i], totals[i] + this.unknown, -1);
    }
    const found = [];
    for (let place = size; place; place = origins[place]) {
      if (last[place] >= 0) found.push(last[place]);
      else {
        for (let i = place - 1; i >= origins[place]; i--) found.push(this.meta.bytes[bytes[i]]);
      }
    }
    return found.reverse();
  }
}

// Bytes of the UTF-8 character that begins with this byte.
function characterLength(lead) {
  return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

function characterSize(point) {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

function codePoint(bytes, at, size) {
  let point = size === 1 ? bytes[at] : bytes[at] & (0x7f >> size);
  for (let i = 1; i < size; i++) point = (point << 6) | (bytes[at + i] & 0x3f);
  return point;
}

// Changes of a text before it is split into words, by name.
const REWRITES = {
  nfc: (text) => text.normalize("NFC"),
  prefix: (text) => text && " " + text,
  space: (text) => (!text || text.startsWith(" ") ? text : " " + text),
};

function latin(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

class Tokenizer {
  constructor(meta, bytes, classes) {
    this.meta = meta;
    this.name = meta.name;
    this.languages = meta.languages || [];
    this.size = meta.size;
    this.segmenter = new { merges: Merges, ranks: Ranks, search: Search }[meta.kind](meta, new Planes(bytes));
    this.pattern = compilePattern(meta.pattern, classes);
    this.cache = new Map();
    this.chosen = "";
    this.encoder = new TextEncoder();
    this.added = null;
    for (const [text, id] of meta.added || []) {
      if (id >= 0) this.segmenter.lengths[id] = this.encoder.encode(text).length;
    }
  }
  // The tokens of the languages with these columns; all tokens for null.
  select(columns) {
    const mask = columns === null ? null : maskOf(columns, this.segmenter.tokenBits.length);
    const key = columns === null ? "all" : columns.join();
    if (key !== this.chosen) {
      this.cache.clear();
      this.segmenter.prepare?.(columns, mask);
      this.added = this.addedTokens(mask);
    }
    this.chosen = key;
    return mask;
  }
  // Ids of the tokens that are found in a text before it is split, and their pattern: at each
  // place the longest. Special ones (-1) are text, but no other begins within them.
  addedTokens(mask) {
    const bits = this.segmenter.tokenBits;
    const there = (this.meta.added || []).filter(
      ([, id]) => id < 0 || mask === null || anyBit(bits, mask, id)
    );
    if (!there.some(([, id]) => id >= 0)) return null;
    const texts = there.map(([text]) => text).sort((a, b) => b.length - a.length);
    const escaped = texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|\/]/g, "\\$&"));
    return { ids: new Map(there), pattern: new RegExp(escaped.join("|"), "gu") };
  }
  // [[ids, bytes]] of the words of a text under `select`ed languages.
  segment(text, mask) {
    if (!this.added) return this.words(text, mask);
    const found = [];
    let from = 0;
    for (const match of text.matchAll(this.added.pattern)) {
      const id = this.added.ids.get(match[0]);
      if (id < 0) continue;
      found.push(...this.words(text.slice(from, match.index), mask));
      found.push([[id], this.encoder.encode(match[0])]);
      from = match.index + match[0].length;
    }
    found.push(...this.words(text.slice(from), mask));
    return found;
  }
  words(text, mask) {
    const found = [];
    if (this.segmenter.characters) text = text.replaceAll("\u2581", " ");
    if (this.meta.rewrite) text = REWRITES[this.meta.rewrite](text);
    for (const [word] of text.matchAll(this.pattern)) {
      const bytes = this.encoder.encode(word);
      let ids = this.cache.get(word);
      if (ids === undefined) {
        ids = this.segmenter.word(bytes, mask);
        this.cache.set(word, ids);
      }
      found.push([ids, bytes]);
    }
    return found;
  }
  encode(text, columns) {
    return this.segment(text, this.select(columns)).flatMap(([ids]) => ids);
  }
  // Number of tokens of the languages with these columns.
  sizeOf(columns) {
    if (columns === null) return this.size;
    const bits = this.segmenter.tokenBits;
    const mask = maskOf(columns, bits.length);
    let size = 0;
    for (let id = 0; id < this.size; id++) if (anyBit(bits, mask, id)) size++;
    return size;
  }
  // Number of bytes of a token.
  lengthOf(id) {
    return this.segmenter.lengths[id];
  }
  // Columns of the languages that have a token.
  owners(id) {
    const bits = this.segmenter.tokenBits;
    return this.languages.map((_, i) => i).filter((i) => bits[i >> 3][id] & (1 << (i & 7)));
  }
}

async function loadTokenizers(payload) {
  const found = [];
  for (const { meta, data } of payload.tokenizers) {
    found.push(new Tokenizer(meta, await inflate(data), payload.classes));
  }
  return found;
}
