"use strict";
// What is shown: the choice of languages, and one card for each tokenizer. A worker segments, so that
// the page answers meanwhile.

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
const by = (id) => document.getElementById(id);
const figure = (value) => value.toLocaleString("en-US");
const LIMIT = 2000; // tokens that a card shows
const SOON = 2000; // characters that are shown before a longer text is counted
const LINK = 2000; // characters that the address keeps

// A function that calls those of segment.js in a worker, or here where a page may have none.
function engine() {
  try {
    const source = [by("segment").textContent, "onmessage = serveCalls;"];
    const place = URL.createObjectURL(new Blob(source, { type: "text/javascript" }));
    const worker = new Worker(place);
    const waiting = new Map();
    worker.onmessage = ({ data: [number, found, error] }) => {
      const [resolve, reject] = waiting.get(number);
      waiting.delete(number);
      if (error === null) resolve(found);
      else reject(new Error(error));
    };
    let last = 0;
    return (...message) =>
      new Promise((resolve, reject) => {
        waiting.set(++last, [resolve, reject]);
        worker.postMessage([last, ...message]);
      });
  } catch {
    return async (call, ...rest) => CALLS[call](...rest);
  }
}

function start(payload, call) {
  const tokenizers = payload.tokenizers.map(({ meta }) => ({ languages: [], ...meta }));
  const languages = [...new Map(tokenizers.flatMap((t) => t.languages).map((l) => [l.code, l])).values()];
  languages.sort((a, b) => a.name.localeCompare(b.name));
  // Steps of the golden angle: neighbors in the list differ most.
  const hues = new Map(languages.map((l, i) => [l.code, Math.round(i * 137.5) % 360]));
  const named = new Map(languages.map((l) => [l.code, l.name]));
  const chosen = new Set(payload.chosen);
  const input = by("text");
  const boxes = new Map();

  function choose(codes) {
    chosen.clear();
    for (const code of codes) if (named.has(code)) chosen.add(code);
    for (const [code, box] of boxes) box.checked = chosen.has(code);
    draw();
  }

  // The tokenizer, columns and title of each card.
  function wanted() {
    return tokenizers.flatMap((tokenizer, index) => {
      const { languages: those, name } = tokenizer;
      if (!those.length) return [{ index, tokenizer, columns: null, title: name }];
      const columns = those.flatMap((l, i) => (chosen.has(l.code) ? [i] : []));
      const names = columns.map((c) => those[c].name).join(", ");
      const all = { index, tokenizer, columns: null, title: `${name}: all ${those.length} languages` };
      const some = { index, tokenizer, columns, title: `${name}: ${names}` };
      return [...(columns.length ? [some] : []), ...(columns.length < those.length ? [all] : [])];
    });
  }

  function card({ tokenizer, columns, title }, { count, size, first, own }) {
    const those = tokenizer.languages;
    const detail = element("p", { class: "detail dim" });
    const line = element("div", {
      class: "tokens", dir: "auto", tabindex: 0, role: "listbox", "aria-label": `Tokens of ${title}`,
    });
    const nodes = [];
    let at = -1;
    function pick(index) {
      if (!nodes[index]) return;
      nodes[at]?.classList.remove("chosen");
      nodes[at]?.removeAttribute("aria-selected");
      at = index;
      const node = nodes[at];
      node.classList.add("chosen");
      node.setAttribute("aria-selected", "true");
      node.id ||= `token-${Math.random().toString(36).slice(2)}`;
      line.setAttribute("aria-activedescendant", node.id);
      detail.textContent = node.getAttribute("aria-label");
      if (node.offsetTop < line.scrollTop || node.offsetTop > line.scrollTop + line.clientHeight) {
        node.scrollIntoView({ block: "nearest" });
      }
    }
    first.forEach(([id, text, whole, owners], i) => {
      const mine = owners.filter((c) => columns === null || columns.includes(c));
      const isOwn = those.length && mine.length === 1;
      const kind = !those.length ? (i % 2 ? "odd" : "even") : isOwn ? "own" : "shared";
      const names = owners.length === those.length ? "all languages" : owners.map((c) => those[c].name).join(", ");
      const label = text.replaceAll("\n", "⏎").replaceAll("\t", "⇥");
      const about = `${JSON.stringify(label)}, id ${id}${those.length ? ": " + names : ""}`;
      const attributes = { class: `token ${kind}${whole ? "" : " bytes"}`, role: "option", title: about, "aria-label": about };
      if (isOwn) attributes.style = `--h:${hues.get(those[mine[0]].code)}`;
      nodes.push(element("span", attributes, label));
      line.append(nodes.at(-1), ...(whole && text.includes("\n") ? [element("br")] : []));
    });
    line.addEventListener("click", ({ target }) => pick(nodes.indexOf(target)));
    line.addEventListener("focus", () => at < 0 && pick(0));
    line.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: nodes.length - 1 };
      if (!(event.key in to)) return;
      event.preventDefault();
      pick(to[event.key]);
    });
    const legend = element("div", { class: "legend" });
    const ranked = [...own].sort((a, b) => b[1] - a[1]);
    for (const [column, tokens] of ranked.slice(0, 8)) {
      const { code, name } = those[column];
      legend.append(element("span", { class: "token own", style: `--h:${hues.get(code)}` }, name), ` ${figure(tokens)} `);
    }
    const rest = count - ranked.reduce((sum, [, tokens]) => sum + tokens, 0);
    if (those.length && rest) legend.append(element("span", { class: "token shared" }, "shared"), ` ${figure(rest)}`);
    const more = count - first.length;
    const parts = [line, ...(more > 0 ? [`… and ${figure(more)} more tokens`] : []), detail, legend];
    if (tokenizer.each) {
      parts.push(element("p", { class: "legend" }, "A word is cut into as few tokens as possible. Of such cuts the one " +
        "whose tokens were most frequent in the training text is taken, so that the parts of a rare word need not be those that a reader sees."));
    }
    return { title, count, size, parts };
  }

  function show(cards, characters, part) {
    const counts = cards.map((each) => each.count);
    const most = Math.max(1, ...counts);
    const fewest = Math.min(...counts);
    const share = (count) => (count === most ? "tokens: the most here" : `tokens: ${Math.round((100 * count) / most)}% of the most`);
    const times = (count) => (count > fewest ? ` (${(count / fewest).toFixed(2)} times the fewest)` : "");
    by("summary").classList.toggle("spoken", !part);
    by("summary").textContent = part
      ? `${figure(characters)} of ${figure(input.value.length)} characters; counting the rest …`
      : cards.map((each) => `${each.title}: ${figure(each.count)} tokens`).join("; ");
    by("cards").replaceChildren(
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
          ...(cards.length > 1
            ? [element("div", { class: "bar" }, element("i", { style: `width:${(70 * each.count) / most}%` }), share(each.count))]
            : []),
          ...each.parts
        )
      )
    );
  }

  // One round at a time: what is typed meanwhile begins the next, and ends this one early.
  let [asked, working] = [0, false];
  async function draw() {
    asked += 1;
    by("count").value = `${chosen.size} of ${languages.length}`;
    remember();
    if (working) return;
    working = true;
    try {
      for (let now = 0; now !== asked; ) {
        now = asked;
        const text = input.value.toWellFormed?.() ?? input.value;
        for (const length of text.length > SOON ? [SOON, text.length] : [text.length]) {
          const those = wanted();
          const cards = [];
          const begin = length < text.length ? text.slice(0, length).replace(/\S*$/, "") : text;
          for (const each of those) {
            const found = await call("answer", each.index, each.columns, begin, LIMIT);
            if (now !== asked) break;
            cards.push(card(each, found));
          }
          if (now !== asked) break;
          show(cards, [...begin].length, length < text.length);
        }
      }
    } catch (error) {
      by("summary").classList.remove("spoken");
      by("summary").textContent = `This browser cannot show the page: ${error.message}`;
    }
    working = false;
  }

  // The address has text and languages, so that it can be shared.
  let timer = 0;
  function remember() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const hash = new URLSearchParams({ langs: [...chosen].join(",") });
      if (input.value.length <= LINK) hash.set("text", input.value);
      history.replaceState(null, "", `#${hash}`);
    }, 300);
  }
  function recall() {
    const hash = new URLSearchParams(location.hash.slice(1));
    if (hash.has("text")) input.value = hash.get("text");
    choose(hash.has("langs") ? hash.get("langs").split(",") : chosen.size ? [...chosen] : payload.chosen);
  }

  async function drop(file) {
    if (!file) return;
    try {
      const index = await call("drop", file.name, await file.text(), payload.patterns);
      tokenizers[index] = { name: file.name, languages: [] };
      draw();
    } catch (error) {
      by("summary").classList.remove("spoken");
      by("summary").textContent = error.message;
    }
  }
  by("file").addEventListener("change", ({ target }) => drop(target.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      document.body.classList.toggle("over", name === "dragover");
      if (name === "drop") drop(event.dataTransfer.files[0]);
    });
  }

  const list = by("languages");
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
  by("all").addEventListener("click", () => choose(languages.map((l) => l.code)));
  by("none").addEventListener("click", () => choose([]));
  const samples = by("samples");
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
  window.addEventListener("hashchange", recall);
  recall();
}

const call = engine();
call("load", PAYLOAD).then(
  () => {
    start(PAYLOAD, call);
    document.body.dataset.ready = "1";
  },
  (error) => {
    by("summary").textContent = `This browser cannot show the page: ${error.message}`;
  }
);
