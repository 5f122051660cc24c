"use strict";
// What is shown: the choice of languages, and one card for each tokenizer.

const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};
const figure = (value) => value.toLocaleString("en-US");
const decoder = new TextDecoder("utf-8", { fatal: true });

// A token of whole characters is text; tokens that share a character show their bytes.
function shown(bytes) {
  try {
    return { text: decoder.decode(bytes), whole: true };
  } catch {
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
    return { text: hex.join(" "), whole: false };
  }
}

function start(payload, tokenizers) {
  const modular = tokenizers.filter((each) => each.languages.length);
  const languages = [...new Map(modular.flatMap((t) => t.languages).map((l) => [l.code, l])).values()];
  languages.sort((a, b) => a.name.localeCompare(b.name));
  // Steps of the golden angle: neighbors in the list differ most.
  const hues = new Map(languages.map((l, i) => [l.code, Math.round(i * 137.5) % 360]));
  const chosen = new Set(payload.chosen);
  const input = document.getElementById("text");
  const boxes = new Map();
  const number = document.getElementById("number");
  const count = document.getElementById("count");
  // Languages as they were learned; the slider adds and drops at the end of what is chosen.
  const order = [...new Set(modular.flatMap((t) => t.languages.map((l) => l.code)))];

  const columnsOf = (tokenizer) =>
    tokenizer.languages.flatMap((l, i) => (chosen.has(l.code) ? [i] : []));

  function choose(codes) {
    chosen.clear();
    for (const code of codes) chosen.add(code);
    for (const [code, box] of boxes) box.checked = chosen.has(code);
    draw();
  }

  function card(tokenizer, columns, title) {
    const tokens = tokenizer.select(columns).segment(input.value.toWellFormed?.() ?? input.value);
    const used = new Map();
    const line = element("div", { class: "tokens", dir: "auto" });
    const limit = 4000;
    tokens.slice(0, limit).forEach(([id, bytes], i) => {
      const { text, whole } = shown(bytes);
      const owners = tokenizer.languages.length
        ? tokenizer.owners(id).map((c) => tokenizer.languages[c])
        : [];
      const mine = owners.filter((l) => columns === null || chosen.has(l.code));
      const shared = mine.length !== 1;
      let kind = tokenizer.languages.length ? "shared" : i % 2 ? "odd" : "even";
      if (tokenizer.languages.length && !shared) {
        kind = "own";
        used.set(mine[0].code, (used.get(mine[0].code) || 0) + 1);
      }
      const names =
        owners.length === tokenizer.languages.length
          ? "all languages"
          : owners.map((l) => l.name).join(", ");
      const label = text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥");
      line.append(
        element(
          "span",
          {
            class: `token ${kind}${whole ? "" : " bytes"}`,
            style: kind === "own" ? `--h:${hues.get(mine[0].code)}` : "",
            title: `id ${id}${names ? ": " + names : ""}`,
          },
          label
        )
      );
    });
    if (tokens.length > limit) line.append(` … and ${figure(tokens.length - limit)} more tokens`);
    const legend = element("div", { class: "legend" });
    for (const [code, count] of [...used].sort((a, b) => b[1] - a[1]).slice(0, 8)) {
      const name = languages.find((l) => l.code === code).name;
      legend.append(
        element("span", { class: "token own", style: `--h:${hues.get(code)}` }, name),
        ` ${figure(count)} `
      );
    }
    const rest = tokens.length - [...used.values()].reduce((a, b) => a + b, 0);
    if (tokenizer.languages.length && rest) {
      legend.append(element("span", { class: "token shared" }, "shared"), ` ${figure(rest)}`);
    }
    return { title, line, legend, count: tokens.length, size: tokenizer.sizeOf(columns) };
  }

  function draw() {
    number.value = Math.max(1, chosen.size);
    count.value = `${chosen.size} of ${languages.length}`;
    const cards = [];
    for (const tokenizer of tokenizers) {
      if (!tokenizer.languages.length) {
        cards.push(card(tokenizer, null, tokenizer.name));
        continue;
      }
      const columns = columnsOf(tokenizer);
      const names = columns.map((c) => tokenizer.languages[c].name).join(", ");
      if (columns.length) cards.push(card(tokenizer, columns, `${tokenizer.name}: ${names}`));
      if (columns.length < tokenizer.languages.length) {
        const all = tokenizer.languages.length;
        cards.push(card(tokenizer, null, `${tokenizer.name}: all ${all} languages`));
      }
    }
    const characters = [...input.value].length;
    const most = Math.max(1, ...cards.map((each) => each.count));
    const fewest = Math.min(...cards.map((each) => each.count));
    const times = (count) => (count > fewest ? ` (${(count / fewest).toFixed(2)} times the fewest)` : "");
    document.getElementById("cards").replaceChildren(
      ...cards.map((each) =>
        element(
          "section",
          {},
          element("h2", {}, each.title),
          element(
            "p",
            { class: "numbers" },
            element("b", {}, figure(each.count)),
            ` tokens${times(each.count)}, `,
            element("b", {}, each.count ? (characters / each.count).toFixed(2) : "–"),
            " characters per token, vocabulary ",
            element("b", {}, figure(each.size))
          ),
          element("div", { class: "bar" }, element("i", { style: `width:${(100 * each.count) / most}%` })),
          each.line,
          each.legend
        )
      )
    );
  }

  const list = document.getElementById("languages");
  for (const { code, name } of languages) {
    const box = element("input", {
      type: "checkbox",
      id: `language-${code}`,
      onchange: () => {
        if (box.checked) chosen.add(code);
        else chosen.delete(code);
        draw();
      },
    });
    box.checked = chosen.has(code);
    boxes.set(code, box);
    list.append(element("label", { style: `--h:${hues.get(code)}` }, box, ` ${name}`));
  }
  number.max = Math.max(1, languages.length);
  number.addEventListener("input", () => {
    const rest = order.filter((code) => !chosen.has(code));
    choose([...chosen, ...rest].slice(0, Number(number.value)));
  });
  document.getElementById("all").addEventListener("click", () => choose(languages.map((l) => l.code)));
  document.getElementById("none").addEventListener("click", () => choose([]));
  const samples = document.getElementById("samples");
  for (const { code, name, text } of payload.samples) {
    samples.append(
      element(
        "button",
        {
          type: "button",
          onclick: () => {
            input.value = text;
            if (languages.some((l) => l.code === code)) choose([code]);
            else draw();
          },
        },
        name
      )
    );
  }
  input.addEventListener("input", draw);
  draw();
}

loadTokenizers(PAYLOAD).then(
  (tokenizers) => {
    start(PAYLOAD, tokenizers);
    document.body.dataset.ready = "1";
  },
  (error) => {
    document.getElementById("cards").textContent = `This browser cannot show the page: ${error}`;
  }
);
