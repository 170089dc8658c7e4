// When keys expire: how many from now on, which, and how late those were that have expired.
import { Bars, Lines } from "./chart.js";
import { count, duration, fromBase64, h, late, short, shown, time } from "./dom.js";

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
const scales = [
  { id: "second", title: "next minute", unit: second, bars: 60, from: "near", within: minute },
  { id: "minute", title: "next hour", unit: minute, bars: 60, from: "near", within: hour },
  { id: "hour", title: "next day", unit: hour, bars: 24, from: "far", within: day },
  { id: "day", title: "next 60 days", unit: day, bars: 60, from: "far", within: 60 * day },
];
const maxLists = 16;

const clock = (ms, options) => new Intl.DateTimeFormat("en-GB", options).format(ms);
const label = {
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

// barsOf sums the spans of a forecast into bars of a unit, for one database or all ("").
function barsOf(due, scale, db, at) {
  const first = Math.floor(at / scale.unit);
  const bars = Array.from({ length: scale.bars }, (_, i) => {
    const from = (first + i) * scale.unit;
    return { from, until: from + scale.unit, label: label[scale.id](from), tick: tick[scale.id](from), a: 0, b: 0 };
  });
  for (const [name, list] of Object.entries(due.dbs)) {
    if (db !== "" && name !== db) continue;
    for (const [i, keys, elements] of list ?? []) {
      const begin = i === 0 ? due.from : due.until[i - 1];
      const bar = bars[Math.floor(begin / scale.unit) - first];
      if (bar && due.until[i] <= bar.until) {
        bar.a += keys;
        bar.b += elements;
      }
    }
  }
  return bars;
}

function total(due, until, db) {
  let n = 0;
  for (const [name, list] of Object.entries(due.dbs)) {
    if (db !== "" && name !== db) continue;
    for (const [i, keys, elements] of list ?? []) if (due.until[i] <= until) n += keys + elements;
  }
  return n;
}

function make(app) {
  let scale = scales[0], firstBar = 0, picked = null;
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const chart = new Bars("How many keys and elements expire from now on. Arrow keys choose a bar, Shift extends, Enter lists the keys.", 240, (a, b) => list(a.from, b.until), text => { readout.textContent = text; });
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Span of time" });
  const databases = h("select", { onchange: () => update(app.message) });
  const counted = h("p", { class: "soft small" });
  const table = h("tbody");
  const details = h("details", { ontoggle: () => update(app.message) }, h("summary", {}, "As a table"),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "From"), h("th", { class: "n", scope: "col" }, "Keys"), h("th", { class: "n", scope: "col" }, "Elements"), h("th", { scope: "col" }, ""))), table)));

  const keys = h("section", { class: "card", "aria-label": "Keys in the order of their deadlines", id: "due", hidden: true });
  const lateness = new Lines("How late keys were removed, in the last two minutes", 150);
  const expired = new Bars("How many keys and elements expired, in the last two minutes", 150);
  const lately = h("tbody");
  const recent = h("section", { class: "card" }, h("h2", {}, "Expired lately"),
    h("div", { class: "grid wide" },
      h("div", {}, expired.el, h("p", { class: "legend" }, h("span", {}, "keys a second"), h("span", { class: "b" }, "elements a second"))),
      h("div", {}, lateness.el, h("p", { class: "legend" }, h("span", { class: "l" }, "lateness p50"), h("span", { class: "l b" }, "p99"), h("span", { class: "l c" }, "max")))),
    h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ...["At", "Keys", "Elements", "p50", "p99", "max"].map((t, i) => h("th", { scope: "col", class: i ? "n" : null }, t)))), lately))));

  const el = h("section", {},
    h("div", { class: "head" }, h("h1", { class: "grow" }, "When keys expire"), h("label", { class: "field" }, "Database", databases)),
    tiles,
    h("section", { class: "card" }, chart.el, readout,
      h("div", { class: "legend" }, h("span", {}, "keys, by their own deadline"), h("span", { class: "b" }, "keys whose next deadline is an element’s")),
      counted, details),
    keys, recent);

  function choose(s) {
    if (s !== scale) {
      scale = s;
      chart.cursor = chart.anchor = -1;
      readout.textContent = "";
    }
    update(app.message);
  }

  function showTiles(m, db) {
    if (tiles.childElementCount === 0) {
      tiles.append(...scales.map(s => h("button", { class: "tile", id: "scale-" + s.id, onclick: () => choose(s) }, h("span", {}, s.title), h("strong", {}, "–"))));
    }
    scales.forEach((s, i) => {
      const due = m.due[s.from], tile = tiles.children[i];
      tile.setAttribute("aria-pressed", s === scale);
      tile.lastChild.textContent = due.until.length ? short(total(due, due.from + s.within, db)) : "…";
    });
  }

  function showDatabases(m) {
    const names = ["", ...m.usage.keys.databases.map(d => String(d.db))];
    if (names.join() === databases.dataset.names) return;
    const value = databases.value;
    databases.replaceChildren(...names.map(n => h("option", { value: n }, n === "" ? "all" : n)));
    databases.dataset.names = names.join();
    databases.value = names.includes(value) ? value : "";
  }

  function update(m) {
    if (!m) return;
    showDatabases(m);
    const db = databases.value, due = m.due[scale.from];
    showTiles(m, db);
    const bars = barsOf(due, scale, db, m.at);
    if (firstBar && bars[0].from > firstBar) chart.shift((bars[0].from - firstBar) / scale.unit);
    firstBar = bars[0].from;
    chart.show(bars);
    const age = m.at - due.from, rest = total(m.due.far, Infinity, db) - total(m.due.far, m.due.far.from + 60 * day, db);
    counted.textContent = !due.until.length ? "Counting…" : (age < 5000 ? "" : `Counted ${duration(age)} ago, as there are so many. `) + (scale.id === "day" && rest > 0 ? `${count(rest)} expire later. ` : "") +
      (app.session.may.list ? "Drag over the bars to list their keys." : "");
    if (details.open) {
      table.replaceChildren(...bars.filter(b => b.a + b.b > 0).map(b => h("tr", {}, h("td", {}, b.label), h("td", { class: "n" }, count(b.a)), h("td", { class: "n" }, count(b.b)),
        h("td", { class: "n" }, app.session.may.list && h("button", { class: "plain", onclick: () => list(b.from, b.until) }, "list")))));
    }
    const points = app.history, span = 120, padding = Array.from({ length: Math.max(0, span - points.length) }, () => ({ a: 0, b: 0, label: "" }));
    expired.show([...padding, ...points.map(p => ({ a: p.keys, b: p.elements, label: "" }))].map((d, i, all) => ({ ...d, tick: i === 4 ? "2 min ago" : i === all.length - 1 ? "now" : "" })));
    lateness.show({ points: points.map(p => [p.p50, p.p99, p.max].map(v => v < 0 ? 10000 : v)), classes: ["", "b", "c"], room: span, ticks: ["2 min ago", "now"], least: 1, format: v => v + " ms" });
    lately.replaceChildren(...points.filter(p => p.keys + p.elements > 0).reverse().slice(0, 30).map(p => h("tr", {}, h("td", {}, label.second(p.at)),
      ...[count(p.keys), count(p.elements), late(p.p50), late(p.p99), late(p.max)].map(t => h("td", { class: "n" }, t)))));
  }

  async function list(from, until) {
    if (!app.session.may.list) return;
    const pattern = picked?.pattern ?? "";
    picked = { from, until, pattern };
    const mine = picked;
    keys.hidden = false;
    const all = app.message.usage.keys.databases.filter(d => databases.value === "" || String(d.db) === databases.value).slice(0, maxLists);
    const found = [];
    let through = until, error = "";
    try {
      for (const { db } of all) {
        const answer = await app.ask("due?" + new URLSearchParams({ db, from: Math.max(from, Date.now() - day), until, match: pattern }));
        through = Math.min(through, answer.through);
        found.push(...answer.keys.map(k => ({ ...k, db, data: fromBase64(k.name) })));
      }
    } catch (e) {
      error = e.message;
    }
    if (picked !== mine) return;
    found.sort((a, b) => a.at - b.at);
    showKeys(found.filter(k => k.at <= through), through < until, all.length > 1, error);
  }

  function showKeys(found, more, many, error) {
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
        h("button", { onclick: () => { keys.hidden = true; chart.cursor = chart.anchor = -1; chart.draw(); chart.el.focus(); } }, "Close")),
      error ? h("p", { class: "notice", role: "alert" }, error) : "",
      found.length > 1 ? h("div", { class: "small soft" }, `By the beginning of their names, of these ${count(found.length)}:`, h("ul", { class: "chips" }, [...groups].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([g, n]) => h("li", {}, h("span", { class: "mono" }, g), " " + count(n))))) : "",
      found.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Keys" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), many && h("th", { class: "n", scope: "col" }, "Database"), h("th", { scope: "col" }, "Expires"), h("th", { class: "n", scope: "col" }, "At"), h("th", { class: "n", scope: "col" }, "In"))), h("tbody", {}, rows)))
        : error ? "" : h("p", { class: "empty" }, "No key that you may see expires then."));
  }

  return { el, update };
}

export const timeline = { id: "timeline", title: "Timeline", needs: may => may.watch ? "" : "INFO and LATENCY HISTOGRAM", make };
