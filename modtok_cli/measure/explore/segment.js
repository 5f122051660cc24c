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

// Byte-level BPE by merges; a subset of languages is a mask over the merges.
class Merges {
  constructor(meta, planes) {
    this.byteIds = Int32Array.from(meta.bytes);
    const width = meta.width;
    this.left = planes.integers(meta.merges, width);
    this.right = planes.integers(meta.merges, width);
    this.result = planes.integers(meta.merges, width);
    const columns = (meta.languages || []).length;
    this.mergeBits = planes.bits(meta.merges, columns);
    this.tokenBits = planes.bits(meta.size, columns);
    this.lengths = new Int32Array(meta.size);
    for (const id of this.byteIds) this.lengths[id] = 1;
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
        return mask === null || anyBit(this.mergeBits, mask, rank) ? rank : -1;
      }
      slot = (slot + 1) & (this.slots.length - 1);
    }
    return -1;
  }
  word(bytes, mask) {
    const ids = Array.from(bytes, (byte) => this.byteIds[byte]);
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
    this.segmenter = new { merges: Merges, ranks: Ranks }[meta.kind](meta, new Planes(bytes));
    this.pattern = compilePattern(meta.pattern, classes);
    this.cache = new Map();
    this.chosen = "";
    this.encoder = new TextEncoder();
  }
  // The tokens of the languages with these columns; all tokens for null.
  select(columns) {
    const mask = columns === null ? null : maskOf(columns, this.segmenter.tokenBits.length);
    const key = columns === null ? "all" : columns.join();
    if (key !== this.chosen) this.cache.clear();
    this.chosen = key;
    return mask;
  }
  // [{id, bytes}] of a text under `select`ed languages.
  segment(text, mask) {
    const found = [];
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
