// A console: commands as one types them in redis-cli, with completion and help from COMMAND DOCS.
import { asText, h, shown } from "./dom.js";
import { ReplyError } from "./resp.js";

const text = v => v instanceof Uint8Array ? asText(v) ?? shown(v) : String(v);
const toMap = v => new Map([...(v ?? [])].map(([k, x]) => [text(k), x]));

// words splits a line as redis-cli does: "…" with escapes, '…' without.
export function words(line) {
  const list = [];
  let i = 0;
  while (i < line.length) {
    if (/\s/.test(line[i])) { i++; continue; }
    let out = [], quote = "";
    const put = c => out.push(...new TextEncoder().encode(c));
    for (; i < line.length && (quote || !/\s/.test(line[i])); i++) {
      const c = line[i];
      if (!quote && (c === '"' || c === "'") && out.length === 0) quote = c;
      else if (quote && c === quote) {
        quote = "";
        i++;
        if (i < line.length && !/\s/.test(line[i])) throw new Error("A quote ends within a word.");
        break;
      } else if (c === "\\" && quote === '"' && i + 1 < line.length) {
        const code = /^x([0-9a-f]{2})/i.exec(line.slice(i + 1));
        if (code) { out.push(parseInt(code[1], 16)); i += 3; } else put({ n: "\n", r: "\r", t: "\t", b: "\b", a: "\x07" }[line[++i]] ?? line[i]);
      } else if (c === "\\" && quote === "'" && line[i + 1] === "'") put(line[++i]);
      else { const point = String.fromCodePoint(line.codePointAt(i)); put(point); i += point.length - 1; }
    }
    if (quote) throw new Error("A quote does not end.");
    list.push(Uint8Array.from(out));
  }
  return list;
}

// lines show a reply as redis-cli does.
function lines(v, indent = "") {
  if (v === null) return "(nil)";
  if (v instanceof ReplyError) return "(error) " + v.message;
  if (v instanceof Uint8Array) return '"' + shown(v, 4000).replace(/^\(empty\)$/, "").replaceAll('"', '\\"') + '"';
  if (typeof v === "boolean") return v ? "(true)" : "(false)";
  if (v instanceof Map) return v.size ? [...v].map(([k, x], i) => (i ? indent : "") + `${i + 1}# ${lines(k)} => ${lines(x, indent + "   ")}`).join("\n") : "(empty hash)";
  if (Array.isArray(v)) return v.length ? v.map((x, i) => { const n = `${i + 1}) `; return (i ? indent : "") + n + lines(x, indent + " ".repeat(n.length)); }).join("\n") : "(empty array)";
  return (typeof v === "number" && !Number.isInteger(v) ? "(double) " : "(integer) ") + v;
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
  const database = h("select", {}, ...Array.from({ length: app.session.may.SELECT ? app.session.databases : 1 }, (_, i) => h("option", { value: i }, String(i))));
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
    const line = input.value.trim();
    if (!line) return;
    past.push(line);
    at = past.length;
    input.value = "";
    let reply;
    try {
      const list = words(line);
      [reply] = await app.runAll(Number(database.value), [list]);
    } catch (failure) {
      reply = failure instanceof RangeError ? new ReplyError("There is no reply, or too much of it: " + failure.message + ".") : new ReplyError(failure.message);
    }
    output.append(h("p", { class: "asked" }, "› " + line), h("pre", { class: reply instanceof ReplyError ? "bad" : null }, lines(reply)));
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
