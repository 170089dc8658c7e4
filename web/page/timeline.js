// When keys expire: how many from now on, which, and how late those were that have expired.
import { Bars } from "./chart.js";
import { count, duration, fromBase64, h, put, short, shown, time } from "./dom.js";
import { lately } from "./lately.js";
import { encode } from "./resp.js";

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
const scales = [
  { id: "second", title: "next minute", unit: second, bars: 60 },
  { id: "minute", title: "next hour", unit: minute, bars: 60 },
  { id: "hour", title: "next day", unit: hour, bars: 24 },
  { id: "day", title: "next 60 days", unit: day, bars: 60 },
];
const later = scales.length; // the number of the count of what is due behind them
const maxLists = 16, lastDate = 8.64e15;

const clock = (ms, options) => new Intl.DateTimeFormat("en-GB", options).format(ms);
const label = {
  instant: at => clock(at, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1 }),
  second: at => clock(at, { hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  minute: at => clock(at, { hour: "2-digit", minute: "2-digit" }),
  hour: at => clock(at, { weekday: "short", hour: "2-digit", minute: "2-digit" }),
  day: at => clock(at, { month: "short", day: "numeric", timeZone: "UTC" }) + " (UTC)",
};
const tick = {
  second: at => at % (10 * second) === 0 ? label.second(at) : "",
  minute: at => at % (10 * minute) === 0 ? label.minute(at) : "",
  hour: at => at % (3 * hour) === 0 ? clock(at, { hour: "2-digit", minute: "2-digit" }) : "",
  day: at => at / day % 7 === 0 ? clock(at, { month: "short", day: "numeric", timeZone: "UTC" }) : "",
};

// units are those of the bars of a span that was zoomed in on: the smallest that gives at most maxBars.
const units = [second / 10, second, 5 * second, 15 * second, 30 * second, minute, 5 * minute, 15 * minute, 30 * minute, hour, 6 * hour, day];
const maxBars = 120, maxPatterns = 4, longestPattern = 1024, soon = 250;

// The series of the bars: their title, and a word for each.
const plain = [{ title: "keys, by their next deadline: their own or that of an element", name: "keys", class: "s0" }];
const seriesOf = patterns => [...patterns.map((p, i) => ({ title: p, name: p, class: "s" + i })), { title: "other names that you may see", name: "others", class: "s" + maxPatterns }];

function zoomed(from, until) {
  const unit = units.find(u => (until - from) / u <= maxBars) ?? day, bars = Math.min(maxBars, Math.ceil((until - from) / unit));
  return { id: unit < second ? "instant" : unit < minute ? "second" : unit < hour ? "minute" : unit < day ? "hour" : "day", from, unit, bars };
}

// boundsOf are the bounds of a count as the server gives it: of an estimate those are behind it.
const boundsOf = ([n, low = n, high = n]) => [n, low, high];

// barsOf are the bars of a scale, or of a span, from an instant on, of what the server counted in one database or all (""): a count with its
// bounds, or so many by pattern. null: it has not yet.
function barsOf(counted, view, first, db, patterns) {
  const bars = Array.from({ length: view.bars }, (_, i) => {
    const from = first + i * view.unit;
    return { from, until: from + view.unit, label: label[view.id](from), tick: view.from ? label[view.id](from).replace(" (UTC)", "") : tick[view.id](from), n: Array(patterns ? patterns + 1 : 1).fill(0), low: 0, high: 0 };
  });
  for (const [name, list] of Object.entries(counted?.dbs ?? {})) {
    if (db !== "" && name !== db) continue;
    for (const [i, ...counts] of list) {
      const bar = bars[(counted.from - first) / view.unit + i];
      if (!bar) continue;
      const [n, low, high] = patterns ? [0, 0, 0] : boundsOf(counts);
      (patterns ? counts : [n]).forEach((v, k) => { bar.n[k] += v; });
      bar.low += low;
      bar.high += high;
    }
  }
  return bars;
}

// checked gives patterns that are short enough for the server.
function checked(patterns) {
  if (patterns.some(p => encode(p).length > longestPattern)) throw new Error("A pattern has 1 KiB at most.");
  return patterns;
}

// total is one of the counts from now on, of one database or all.
function total(due, i, db) {
  const sum = [0, 0, 0];
  for (const [name, counts] of Object.entries(due.within)) if (db === "" || name === db) boundsOf(counts[i]).forEach((v, k) => { sum[k] += v; });
  return sum;
}

// about says a count in few digits, and that it is an estimate where those are not certain.
const about = ([n, low, high]) => (short(low) === short(high) ? "" : "≈ ") + short(n);
const bounds = ([n, low, high]) => low === high ? count(n) : `estimated: ${count(low)} to ${count(high)}`;

function make(app) {
  // What is shown: a scale, or the last of the spans that were zoomed in on one after another; of all databases ("") or one; by pattern.
  let scale = scales[0], spans = [], db = "", patterns = [];
  let at = null, firstBar = 0, picked = null, unlisted = null;
  let answer = null, question = "", asking = false;
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const chart = new Bars("How many keys expire. Arrow keys choose a bar, Shift extends, Enter zooms in and lists the keys, Escape zooms out.", 240,
    (a, b) => zoom(a.from, b.until), text => { readout.textContent = text; }, () => zoomOut());
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Span of time" });
  const databases = h("select", { onchange: () => go(() => { db = databases.value; }) });
  const patternField = h("input", { type: "search", id: "timeline-patterns", placeholder: "session:* cart:*", size: 18, maxlength: 1000 });
  const patternError = h("p", { class: "notice", role: "alert", hidden: true });
  const byPattern = h("form", { class: "row", onsubmit: e => { e.preventDefault(); choosePatterns(patternField.value.split(/\s+/).filter(Boolean)); } },
    h("label", { class: "field" }, "By pattern", patternField), h("button", {}, "Count"));
  const trail = h("p", { class: "row small", hidden: true }), legend = h("div", { class: "legend" });
  const countedAt = h("p", { class: "soft small" }), countError = h("p", { class: "notice", role: "alert", hidden: true });
  const table = h("tbody"), columns = h("tr");
  const details = h("details", { class: "bars", ontoggle: () => update(app.message) }, h("summary", {}, "As a table"),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, columns), table)));

  const keys = h("section", { class: "card", "aria-label": "Keys in the order of their deadlines", id: "due", hidden: true });
  const recent = lately(app);

  const el = h("section", {},
    h("div", { class: "head" }, h("h1", { class: "grow" }, "When keys expire"), app.session.may.list && byPattern, h("label", { class: "field" }, "Database", databases)),
    patternError, tiles,
    h("section", { class: "card" }, trail, chart.el, readout, legend, countError, countedAt, details),
    keys, recent.el);

  // address names what is shown, so that a link leads there.
  function address() {
    const words = new URLSearchParams({ scale: scale.id });
    if (db !== "") words.set("db", db);
    for (const [from, until] of spans) words.append("span", `${from}-${until}`);
    for (const p of patterns) words.append("match", p);
    return "timeline/" + words;
  }

  // open shows what an address names.
  function open(text) {
    if (text === at) return;
    const words = new URLSearchParams(text);
    scale = scales.find(s => s.id === words.get("scale")) ?? scales[0];
    db = words.get("db") ?? "";
    spans = words.getAll("span").map(s => s.split("-").map(Number)).filter(([from, until]) => Number.isSafeInteger(from) && Number.isSafeInteger(until) && 0 < from && from < until && until <= lastDate);
    patterns = words.getAll("match").slice(0, maxPatterns);
    at = text;
    restart();
  }

  // go changes what is shown, under an address of its own.
  function go(change) {
    change();
    history.pushState(null, "", "#" + address());
    at = address().slice("timeline/".length);
    restart();
  }

  // restart begins to show something else.
  function restart() {
    answer = null;
    question = "";
    chart.clear();
    patternField.value = patterns.join(" ");
    patternError.hidden = countError.hidden = true;
    showTrail();
    keys.hidden = true;
    unlisted = spans.at(-1) ?? null;
    update(app.message);
  }

  function zoom(from, until) {
    const last = spans.at(-1);
    if (last && last[0] === from && last[1] === until) list(from, until);
    else go(() => { spans = [...spans, [from, until]]; });
  }

  function zoomOut() {
    if (spans.length) go(() => { spans = spans.slice(0, -1); });
  }

  function choosePatterns(list) {
    if (list.length > maxPatterns) {
      patternError.textContent = `At most ${maxPatterns} patterns are counted at a time.`;
      patternError.hidden = false;
      return;
    }
    go(() => { patterns = list; });
  }

  function showTrail() {
    trail.hidden = !spans.length;
    if (!spans.length) return;
    const [from, until] = spans.at(-1);
    put(trail, h("strong", {}, `${time(from)} to ${time(until)}`), h("button", { id: "zoom-out", onclick: () => { zoomOut(); chart.el.focus(); } }, "Zoom out"),
      spans.length > 1 && h("button", { onclick: () => { go(() => { spans = []; }); chart.el.focus(); } }, scale.title));
  }

  function showTiles(m, db) {
    if (tiles.childElementCount === 0) {
      tiles.append(...scales.map(s => h("button", { class: "tile", id: "scale-" + s.id, onclick: () => go(() => { scale = s; spans = []; }) }, h("span", {}, s.title), h("strong", {}, "–"))));
    }
    scales.forEach((s, i) => {
      const tile = tiles.children[i], sum = m.due && total(m.due, i, db);
      tile.setAttribute("aria-pressed", s === scale && !spans.length);
      tile.lastChild.textContent = sum ? about(sum) : "…";
      tile.title = sum ? bounds(sum) : "";
    });
  }

  function showDatabases(m) {
    const names = ["", ...new Set([...m.usage.keys.databases.map(d => d.db).filter(app.reaches).map(String), ...(db ? [db] : [])])];
    if (names.join() !== databases.dataset.names) databases.replaceChildren(...names.map(n => h("option", { value: n }, n === "" ? "all" : n)));
    databases.dataset.names = names.join();
    databases.value = db;
  }

  // ask gets what the server counted for this page, which is asked for again with each message.
  async function ask(view) {
    const words = new URLSearchParams({ unit: view.unit, bars: view.bars, ...(view.from ? { from: view.from } : {}) });
    for (const p of patterns) words.append("match", p);
    if (asking && question === String(words)) return;
    const mine = question = String(words);
    asking = true;
    let error = "";
    try {
      checked(patterns);
      const { count } = await app.ask("span?" + words);
      if (question === mine) answer = count ?? answer;
    } catch (e) {
      error = e.message;
    }
    if (question !== mine) return;
    asking = false;
    countError.textContent = error;
    countError.hidden = error === "";
    showBars(app.message, view);
    if (!answer && !error) setTimeout(() => { if (question === mine && !answer) ask(view); }, soon);
  }

  function update(m) {
    if (!m) return;
    showDatabases(m);
    showTiles(m, db);
    const view = spans.length ? zoomed(...spans.at(-1)) : scale;
    if (view.from || patterns.length) ask(view);
    showBars(m, view);
    recent.update();
    if (unlisted) list(...unlisted);
    unlisted = null;
  }

  function showBars(m, view) {
    const own = view.from > 0 || patterns.length > 0, first = view.from ?? Math.floor(m.at / view.unit) * view.unit;
    const series = patterns.length ? seriesOf(patterns) : plain, mayList = app.session.may.list;
    const bars = barsOf(own ? answer : m.due?.scales[view.id], view, first, db, patterns.length);
    if (!view.from && firstBar && first > firstBar) chart.shift((first - firstBar) / view.unit);
    firstBar = view.from ? 0 : first;
    chart.series = series;
    chart.show(bars);
    legend.replaceChildren(...series.map(s => h("span", { class: s.class }, s.title)));
    const estimated = bars.some(b => b.low < b.high);
    countedAt.textContent = (own ? aboutAnswer(m) : aboutForecast(m)) + (estimated ? " There are so many that some of the counts are estimated, between bounds that are certain (thin lines, and in the table)." : "") + (mayList ? " Drag over the bars to zoom in and list their keys." : " Drag over the bars to zoom in.");
    if (!details.open) return;
    const heads = [...series.map(s => s.name), ...(estimated ? ["at least", "at most"] : [])];
    columns.replaceChildren(h("th", { scope: "col" }, "From"), ...heads.map(name => h("th", { class: "n", scope: "col" }, name)), h("th", { scope: "col" }, ""));
    table.replaceChildren(...bars.filter(b => b.high > 0 || b.n.some(n => n > 0)).map(b => h("tr", {}, h("td", {}, b.label), ...b.n.map(n => h("td", { class: "n" }, count(n) + (b.low < b.high ? " estimated" : ""))),
      ...(estimated ? [b.low, b.high] : []).map(n => h("td", { class: "n" }, count(n))),
      h("td", { class: "n" }, mayList && h("button", { class: "plain", onclick: () => list(b.from, b.until) }, "list")))));
  }

  // How old the counts are, and what they are counts of.
  function aboutForecast(m) {
    if (!m.due) return "Counting…";
    const age = m.at - m.due.from, rest = total(m.due, later, db);
    return (age < 5000 ? "" : `Counted ${duration(age)} ago.`) + (scale.id === "day" && rest[2] > 0 ? ` ${about(rest)} expire later.` : "");
  }

  function aboutAnswer(m) {
    if (!answer) return "Counting…";
    return `Counted ${duration(Math.max(0, m.at - answer.at))} ago` + (answer.every > 1 ? `, from a sample: one name in ${count(answer.every)} was looked at, so the counts are estimates.` : ".") +
      (answer.long ? ` ${count(answer.long)} keys with very long names are not counted.` : "");
  }

  async function list(from, until) {
    if (!app.session.may.list) return;
    const pattern = picked?.pattern ?? (patterns.length === 1 ? patterns[0] : "");
    picked = { from, until, pattern };
    const mine = picked;
    keys.hidden = false;
    const now = app.message.at, oldest = now - day; // what is due has been removed by then
    const filled = app.message.usage.keys.databases.filter(d => db === "" || String(d.db) === db);
    const all = filled.filter(d => app.reaches(d.db)).slice(0, maxLists), found = [];
    let through = until, error = "";
    try {
      checked([pattern]);
      for (const { db } of until < oldest ? [] : all) {
        const part = await app.ask("due?" + new URLSearchParams({ db, from: Math.max(from, oldest), until, match: pattern }));
        through = Math.min(through, part.through);
        found.push(...part.keys.map(k => ({ ...k, db, data: fromBase64(k.name) })));
      }
    } catch (e) {
      error = e.message;
    }
    if (picked !== mine) return;
    found.sort((a, b) => a.at - b.at);
    const rest = filled.length === all.length ? "" : app.session.may.SELECT ? `Only the first ${maxLists} databases are listed.` : db ? `Database ${db} is not listed: you may not SELECT it.` : "Only database 0 is listed: you may not SELECT others.";
    showKeys(found.filter(k => k.at <= through), through < until, all.length > 1, error, rest, until < now ? "This span is past: no key expires in it any more." : "No key that you may see expires then.");
  }

  function showKeys(found, more, many, error, rest, none) {
    const groups = new Map();
    for (const k of found) {
      const name = shown(k.data, 60), cut = name.search(/[:.\/|]/), group = cut > 0 ? name.slice(0, cut + 1) + "*" : name.length < 60 ? "other" : name.slice(0, 12) + "…";
      groups.set(group, (groups.get(group) ?? 0) + 1);
    }
    const pattern = h("input", { type: "search", id: "due-pattern", value: picked.pattern, placeholder: "*", size: 14, maxlength: 1000 });
    const rows = found.map(k => h("tr", {}, h("td", { class: "key" }, app.session.may.SCAN ? h("a", { href: `#keys/${k.db}/${encodeURIComponent(k.name)}` }, shown(k.data)) : shown(k.data)), many && h("td", { class: "n" }, k.db), h("td", {}, k.element ? "an element" : "the key"), h("td", { class: "n" }, time(k.at)), h("td", { class: "n" }, k.at > Date.now() ? duration(k.at - Date.now()) : "past")));
    keys.replaceChildren(
      h("div", { class: "head" }, h("h2", { class: "grow" }, `${more ? "The first " : ""}${count(found.length)} ${found.length === 1 ? "key" : "keys"} from ${time(picked.from)} to ${time(picked.until)}`),
        h("form", { onsubmit: e => { e.preventDefault(); picked.pattern = pattern.value; list(picked.from, picked.until); } }, h("label", { class: "field" }, "Pattern", pattern), " ", h("button", {}, "List")),
        h("button", { onclick: () => { keys.hidden = true; chart.clear(); chart.draw(); chart.el.focus(); } }, "Close")),
      error ? h("p", { class: "notice", role: "alert" }, error) : "", rest ? h("p", { class: "small soft" }, rest) : "",
      found.length > 1 ? h("div", { class: "small soft" }, `By the beginning of their names, of these ${count(found.length)}:`, h("ul", { class: "chips" }, [...groups].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([g, n]) => h("li", {}, h("span", { class: "mono" }, g), " " + count(n))))) : "",
      found.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Keys" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), many && h("th", { class: "n", scope: "col" }, "Database"), h("th", { scope: "col" }, "Expires"), h("th", { class: "n", scope: "col" }, "At"), h("th", { class: "n", scope: "col" }, "In"))), h("tbody", {}, rows)))
        : error ? "" : h("p", { class: "empty" }, none));
  }

  return { el, update, open, address };
}

export const timeline = { id: "timeline", title: "Timeline", needs: may => may.watch ? "" : "INFO and LATENCY HISTOGRAM", make };
