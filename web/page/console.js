// A console: commands as one types them in redis-cli, with completion and help from COMMAND DOCS.
import { asText, count, h, shown } from "./dom.js";
import { encode, ReplyError } from "./resp.js";

// mostOfString and mostOfReply bound what is shown, in characters.
const mostOfString = 4000, mostOfReply = 200_000;

const text = v => v instanceof Uint8Array ? asText(v) ?? shown(v) : String(v);
const toMap = v => new Map([...(v ?? [])].map(([k, x]) => [text(k), x]));

// words splits a line as redis-cli does, byte by byte: a quote begins anywhere in a word and ends it; "…" has escapes, '…' has \' alone.
export function words(line) {
  const list = [], bytes = encode(line), is = (i, chars) => i < bytes.length && chars.includes(String.fromCharCode(bytes[i]));
  const control = { n: 10, r: 13, t: 9, b: 8, a: 7 }, space = " \n\r\t\v\f";
  for (let i = 0; ; ) {
    while (is(i, space)) i++;
    if (i === bytes.length) return list;
    const out = [];
    let quote = 0;
    for (; i < bytes.length && (quote || !is(i, " \n\r\t")); i++) {
      const c = bytes[i], hex = quote === 34 && /^\\x[0-9a-fA-F]{2}$/.test(String.fromCharCode(...bytes.subarray(i, i + 4)));
      if (!quote && is(i, "\"'")) quote = c;
      else if (quote && c === quote) {
        if (i + 1 < bytes.length && !is(i + 1, space)) throw new Error("A quote ends within a word.");
        quote = 0;
        i++;
        break;
      } else if (hex) {
        out.push(parseInt(String.fromCharCode(bytes[i + 2], bytes[i + 3]), 16));
        i += 3;
      } else if (is(i, "\\") && (quote === 34 ? i + 1 < bytes.length : quote && bytes[i + 1] === quote)) {
        i++;
        out.push(quote === 34 ? control[String.fromCharCode(bytes[i])] ?? bytes[i] : bytes[i]);
      } else out.push(c);
    }
    if (quote) throw new Error("A quote does not end.");
    list.push(Uint8Array.from(out));
  }
}

// lines show a reply as redis-cli does, as much of it as there is room for.
function lines(v, indent = "", room = { left: mostOfReply }) {
  const fits = text => { room.left -= text.length; return text; };
  if (v === null) return fits("(nil)");
  if (v instanceof ReplyError) return fits("(error) " + v.message.slice(0, mostOfString));
  if (v instanceof Uint8Array) return fits('"' + (v.length ? shown(v, mostOfString).replaceAll('"', '\\"') : "") + '"');
  if (typeof v === "boolean") return fits(v ? "(true)" : "(false)");
  if (!(v instanceof Map || Array.isArray(v))) return fits((typeof v === "number" && !Number.isInteger(v) ? "(double) " : "(integer) ") + String(v).slice(0, mostOfString));
  const map = v instanceof Map, size = map ? v.size : v.length, list = [];
  if (size === 0) return fits(map ? "(empty hash)" : "(empty array)");
  for (const x of v) {
    const before = list.length ? indent : "";
    if (room.left <= 0) return [...list, `${before}… (${count(size - list.length)} more)`].join("\n");
    const n = fits(`${before}${list.length + 1}${map ? "#" : ")"} `), inner = indent + " ".repeat(map ? 3 : n.length - before.length);
    list.push(n + (map ? `${lines(x[0], inner, room)} => ${lines(x[1], inner, room)}` : lines(x, inner, room)));
  }
  return list.join("\n");
}

function syntax(args) {
  return (args ?? []).map(raw => {
    const a = toMap(raw), flags = (a.get("flags") ?? []).map(text), inner = a.get("arguments");
    const kind = a.has("type") ? text(a.get("type")) : "", token = a.has("token") ? text(a.get("token")) : "";
    let s = kind === "oneof" ? syntax(inner).replaceAll("\u0001", " | ") : kind === "block" ? syntax(inner).replaceAll("\u0001", " ") : kind === "pure-token" ? "" : text(a.get("display_text") ?? a.get("name"));
    s = [token, s].filter(Boolean).join(" ");
    if (flags.includes("multiple")) s += ` [${s} …]`;
    if (flags.includes("optional")) s = `[${s}]`;
    return s;
  }).join("\u0001");
}

function make(app) {
  const output = h("div", { class: "output", role: "log", "aria-label": "Replies", tabindex: "0" });
  const input = h("input", { type: "text", id: "command", "aria-label": "Command", placeholder: "PING", autocomplete: "off", spellcheck: "false", autocapitalize: "off", "aria-describedby": "help" });
  const help = h("p", { class: "help small", id: "help", role: "status" });
  const database = app.databaseChoice();
  const el = h("section", {}, h("div", { class: "head" }, h("h1", { class: "grow" }, "Console"), h("label", { class: "field" }, "Database", database)),
    h("section", { class: "card" }, output, h("form", { class: "row prompt", onsubmit: run }, h("span", { class: "mono soft", "aria-hidden": "true" }, "›"), input, h("button", { class: "main" }, "Run")), help,
      h("p", { class: "small soft" }, "Tab completes the name of a command, ↑ and ↓ bring earlier ones back. Each line runs on a connection of its own: what waits, such as BLPOP or SUBSCRIBE, ends at once.")));
  const past = [];
  let at = 0, docs = null;

  // The documentation of all commands is loaded once.
  async function load() {
    docs = new Map();
    if (!app.session.may["COMMAND|DOCS"]) return;
    try {
      for (const [k, v] of toMap(await app.run(0, "COMMAND", "DOCS"))) {
        docs.set(k.toUpperCase(), toMap(v));
        for (const [sub, x] of toMap(docs.get(k.toUpperCase()).get("subcommands"))) docs.set(sub.replace("|", " ").toUpperCase(), toMap(x));
      }
    } catch { /* there is no help, then */ }
  }

  const upper = () => input.value.trimStart().toUpperCase();
  const matches = () => [...docs.keys()].filter(k => k.startsWith(upper())).sort();

  function explain() {
    const typed = upper(), two = typed.split(/\s+/).slice(0, 2).join(" "), one = typed.split(/\s+/)[0];
    const known = docs.has(two) ? two : docs.has(one) ? one : "";
    if (known) {
      const d = docs.get(known);
      help.replaceChildren(h("code", {}, known + " " + syntax(d.get("arguments")).replaceAll("\u0001", " ")), h("br"), d.has("summary") ? text(d.get("summary")) : "");
    } else {
      help.textContent = typed ? matches().slice(0, 12).join("  ") : "";
    }
  }

  input.addEventListener("input", explain);
  input.addEventListener("keydown", e => {
    if (e.key === "Tab" && !e.shiftKey && typeof docs?.keys === "function" && upper()) {
      const list = matches();
      if (!list.length || list.includes(upper().trimEnd()) && list.length === 1) return;
      let common = list[0];
      for (const m of list) while (!m.startsWith(common)) common = common.slice(0, -1);
      if (common.length <= upper().length && list.length > 1) return;
      input.value = common + (list.length === 1 ? " " : "");
      explain();
    } else if (e.key === "ArrowUp" && at > 0) input.value = past[--at];
    else if (e.key === "ArrowDown" && at < past.length) input.value = past[++at] ?? "";
    else return;
    e.preventDefault();
  });

  async function run(e) {
    e.preventDefault();
    const line = input.value;
    if (!line.trim()) return;
    past.push(line);
    at = past.length;
    input.value = "";
    let reply, text;
    try {
      [reply] = await app.runAll(Number(database.value), [words(line)]);
      text = lines(reply);
    } catch (failure) {
      reply = new ReplyError(failure instanceof RangeError ? "There is no reply, or too much of it: " + failure.message + "." : failure.message);
      text = lines(reply);
    }
    output.append(h("p", { class: "asked" }, "› " + line), h("pre", { class: reply instanceof ReplyError ? "bad" : null }, text));
    while (output.childElementCount > 200) output.firstChild.remove();
    output.scrollTop = output.scrollHeight;
  }

  function open() {
    if (docs === null) load();
    input.focus();
  }

  return { el, open };
}

export const terminal = { id: "console", title: "Console", needs: () => "", make };
