// What is looked at only when asked for: a sample of big keys, and events as they come.
import { bytes, count, fromBase64, h, shown, toBase64 } from "./dom.js";
import { ReplyError } from "./resp.js";

const sampleSteps = 6, sampleStep = 50, biggest = 20, mostEvents = 100;
const link = (db, key) => h("a", { href: `#keys/${db}/${encodeURIComponent(toBase64(key))}` }, shown(key));
const head = words => h("thead", {}, h("tr", {}, ...words.map(w => h("th", { scope: "col" }, w))));
const scroll = (title, ...parts) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, ...parts));
const card = (id, title, ...parts) => h("section", { class: "card", id }, h("h2", {}, title), ...parts);

// bigKeys measures some hundred keys of a database, chosen at random.
export function bigKeys(app) {
  const database = app.databaseChoice();
  const rows = h("tbody"), status = h("p", { class: "small soft", role: "status" }), error = h("p", { class: "notice", role: "alert", hidden: true });
  const button = h("button", { onclick: sample }, "Sample");

  async function sample() {
    const db = Number(database.value), found = new Map();
    button.disabled = true;
    error.hidden = true;
    try {
      for (let step = 0; step < sampleSteps; step++) {
        status.textContent = `Looking… ${count(found.size)} keys`;
        const names = (await app.runAll(db, Array(sampleStep).fill(["RANDOMKEY"]))).filter(n => n instanceof Uint8Array && !found.has(toBase64(n)));
        const about = await app.runAll(db, names.flatMap(n => [["MEMORY", "USAGE", n], ["TYPE", n]]));
        names.forEach((name, i) => {
          const [size, type] = about.slice(2 * i, 2 * i + 2);
          if (typeof size === "number") found.set(toBase64(name), { name, size, type: type instanceof ReplyError ? "" : shown(type) });
        });
      }
    } catch (e) {
      error.textContent = e.message;
      error.hidden = false;
    }
    const list = [...found.values()].sort((a, b) => b.size - a.size).slice(0, biggest);
    status.textContent = `The biggest of ${count(found.size)} keys that were chosen at random; there may be bigger ones.`;
    rows.replaceChildren(...list.map(k => h("tr", {}, h("td", { class: "key" }, link(db, k.name)), h("td", {}, k.type), h("td", { class: "n" }, bytes(k.size)))));
    button.disabled = false;
  }

  return card("big", "Big keys", h("div", { class: "row" }, h("label", { class: "field" }, "Database", database), button), error, status, scroll("Big keys", head(["Key", "Type", "Memory"]), rows));
}

// events shows keyspace events while somebody looks.
export function events(app) {
  let source = null, seen = 0;
  const rows = h("tbody"), status = h("p", { class: "small soft", role: "status" }, "The newest events of keys, some of each second. There are events where notify-keyspace-events has E and their classes, as in KEA.");
  const button = h("button", { onclick: () => source ? leave() : start() }, "Start");

  function start() {
    seen = 0;
    let skipped = 0;
    rows.replaceChildren();
    source = new EventSource(app.at("events"));
    button.textContent = "Stop";
    status.textContent = "Waiting for events…";
    source.onmessage = e => {
      const m = JSON.parse(e.data);
      seen += m.events.length + m.skipped;
      skipped += m.skipped;
      for (const { db, event, key, long } of m.events) {
        const name = fromBase64(key);
        rows.prepend(h("tr", {}, h("td", { class: "mono" }, event), h("td", { class: "key" }, long || !app.session.may.SCAN || !app.reaches(db) ? shown(name) + (long ? "…" : "") : link(db, name)), h("td", { class: "n" }, db)));
      }
      while (rows.childElementCount > mostEvents) rows.lastChild.remove();
      if (seen) status.textContent = `${count(seen)} ${seen === 1 ? "event" : "events"}${skipped ? `, ${count(skipped)} of them not shown` : ""}.`;
    };
    source.onerror = () => {
      leave();
      status.textContent = "The events have ended: the connection is lost, you may not have them, or too many pages show events.";
    };
  }

  function leave() {
    source?.close();
    source = null;
    button.textContent = "Start";
  }

  return { el: card("events", "Events", h("div", { class: "row" }, button), status, scroll("Events", head(["Event", "Key", "Database"]), rows)), leave };
}
