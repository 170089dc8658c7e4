// Makes elements. What comes from the server becomes text only: nothing here parses HTML.

const svgNames = "http://www.w3.org/2000/svg";

export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(svgNames, tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") el[name] = value;
    else el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...there(children));
  return el;
}

// there are the children that there are: a condition that is not met gives false.
const there = children => children.flat().filter(c => c !== null && c !== undefined && c !== false);

// put gives an element other children.
export const put = (el, ...children) => el.replaceChildren(...there(children));

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = n => whole.format(n);
export const short = n => n < 10000 ? whole.format(n) : compact.format(n);

export function bytes(n) {
  let unit = 0;
  for (; n >= 1024 && unit < 5; unit++) n /= 1024;
  return (unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}

// duration is a time in ms in its two largest units.
export function duration(ms) {
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  if (Math.abs(ms) < 1000) return Math.round(ms) + " ms";
  const i = units.findIndex(([, size]) => Math.abs(ms) >= size);
  const [name, size] = units[i];
  const first = Math.trunc(ms / size), rest = i + 1 < units.length ? Math.trunc(Math.abs(ms % size) / units[i + 1][1]) : 0;
  return first + " " + name + (rest > 0 ? " " + rest + " " + units[i + 1][0] : "");
}

// micros is a latency in µs; below 0 it is above all bounds.
export function micros(us) {
  if (us < 0) return "> 17 s";
  if (us < 1000) return us + " µs";
  return us < 1000000 ? (us / 1000).toFixed(us < 10000 ? 1 : 0) + " ms" : (us / 1000000).toFixed(1) + " s";
}

export const late = ms => ms < 0 ? "> 10 s" : ms === 0 ? "–" : ms < 1 ? ms.toFixed(2) + " ms" : duration(ms);

export function time(ms) {
  if (Math.abs(ms) > 8.64e15) return "year " + Math.round(1970 + ms / 31556952000);
  return new Date(ms).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "medium" });
}

// Names and values are bytes; they are shown as text where they are text, and with \x.. otherwise.
export const fromBase64 = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));

export function toBase64(data) {
  let text = "";
  for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
  return btoa(text);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function asText(data) {
  try { return utf8.decode(data); } catch { return null; }
}

// shown is how bytes look in a line: at most so many characters, with what cannot be seen escaped.
export function shown(data, most = 120) {
  const text = asText(data.length > 4 * most ? data.subarray(0, 4 * most) : data);
  let out = "";
  if (text === null) {
    for (const b of data.subarray(0, most)) out += b >= 32 && b < 127 && b !== 92 ? String.fromCharCode(b) : "\\x" + b.toString(16).padStart(2, "0");
  } else {
    out = text.replace(/[\p{C}\u2028\u2029]/gu, c => "\\u{" + c.codePointAt(0).toString(16) + "}");
  }
  if (out.length > most || data.length > 4 * most) out = out.slice(0, most) + "… (" + bytes(data.length) + ")";
  return out === "" ? "(empty)" : out;
}
