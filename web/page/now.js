// What the server does at present.
import { Lines } from "./chart.js";
import { bytes, count, duration, h, micros, short, time } from "./dom.js";

function make(app) {
  const ops = new Lines("Commands a second, in the last two minutes", 170);
  const perSecond = h("strong", { class: "big" }, "–"), families = h("dl");
  const rate = h("strong", { class: "big" }, "–"), rates = h("dl");
  const used = h("strong", { class: "big" }, "–"), stack = h("div", { class: "stack", "aria-hidden": "true" }), owners = h("dl");
  const clients = h("strong", { class: "big" }, "–"), clientList = h("dl");
  const disk = h("strong", { class: "big" }, "–"), disks = h("dl");
  const keys = h("strong", { class: "big" }, "–"), keyList = h("dl");
  const rows = h("tbody");
  let last = null;

  const card = (title, ...parts) => h("section", { class: "card" }, h("h2", {}, title), ...parts);
  const fill = (dl, list) => dl.replaceChildren(...list.flatMap(([name, value, swatch]) => [h("dt", {}, swatch && h("i", { class: "swatch " + swatch }), name), h("dd", {}, value)]));

  const el = h("section", {},
    h("div", { class: "head" }, h("h1", {}, "Now")),
    h("div", { class: "grid wide" },
      card("Commands a second", perSecond, ops.el, families),
      card("Latency by command", h("p", { class: "soft small" }, "Of the last ten seconds, without the wait for the log. Upper bounds: each is at most twice what it was."),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Latency by command" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Command"), ...["a second", "p50", "p99", "p99.9"].map(t => h("th", { class: "n", scope: "col" }, t)))), rows)))),
    h("div", { class: "grid" },
      card("Memory", used, stack, owners),
      card("Keys", keys, keyList),
      card("Keys found", rate, rates),
      card("Clients", clients, clientList),
      card("Log and checkpoint", disk, disks)));

  function update(m) {
    const u = m.usage, sum = Object.values(m.point.ops).reduce((a, b) => a + b, 0);
    perSecond.textContent = short(sum);
    fill(families, Object.entries(m.point.ops).sort((a, b) => b[1] - a[1]).map(([g, n]) => [g, count(n)]));
    ops.show({ points: app.history.map(p => [Object.values(p.ops).reduce((a, b) => a + b, 0)]), classes: [""], room: 120, ticks: ["2 min ago", "now"], least: 10 });
    rows.replaceChildren(...m.commands.map(c => h("tr", {}, h("td", { class: "mono" }, c.name.replace("|", " ").toUpperCase()), h("td", { class: "n" }, count(c.calls)),
      ...[c.p50, c.p99, c.p999].map(v => h("td", { class: "n" }, c.p50 === 0 && c.p999 === 0 ? "–" : micros(v))))));
    if (!m.commands.length) rows.append(h("tr", {}, h("td", { colspan: 5, class: "soft" }, "No command ran.")));

    used.textContent = bytes(u.memory.used);
    const names = ["keys", "clients", "scripts", "other"];
    stack.replaceChildren(...names.slice(0, 3).map(n => { const i = h("i"); i.style.width = 100 * u.memory.by_owner[n] / Math.max(1, u.memory.used) + "%"; return i; }));
    fill(owners, [...names.map((n, i) => [n, bytes(u.memory.by_owner[n]), "s" + i]), ["limit", u.memory.limit ? bytes(u.memory.limit) : "none"], ["peak", bytes(u.memory.peak)], ["resident", bytes(u.memory.resident)]]);

    const hits = last ? m.hits - last.hits : 0, misses = last ? m.misses - last.misses : 0;
    const share = (a, b) => a + b > 0 ? (100 * a / (a + b)).toFixed(1) + " %" : "–";
    rate.textContent = share(hits, misses);
    fill(rates, [["now, found", count(Math.max(0, hits))], ["now, missed", count(Math.max(0, misses))], ["since the start", share(m.hits, m.misses)]]);
    if (last?.at !== m.at) last = m;

    clients.textContent = count(u.clients.connected);
    fill(clientList, [["limit", count(u.clients.limit)], ["blocked", count(m.blocked)], ["memory", bytes(u.clients.memory)]]);

    keys.textContent = short(u.keys.total);
    fill(keyList, [["with a deadline", count(u.keys.expiring)], ["in memory", count(u.keys.in_memory)], ...u.keys.databases.slice(0, 16).map(d => ["database " + d.db, count(d.keys)])]);

    disk.textContent = bytes(u.disk.log);
    fill(disks, [["log, a checkpoint at", bytes(u.disk.log_limit)], ["not durable yet", bytes(m.store.pending)], ["sync, p99", micros(m.store.sync_p99)],
      ["checkpoint", m.store.running ? "running" : m.store.failed ? "failed" : m.store.checkpoint ? duration(Math.max(0, m.at - m.store.checkpoint)) + " ago" : "none yet"],
      ["changes since", count(m.store.changes)], ["data file", bytes(u.disk.data_file)], ["disk, free", bytes(u.disk.free)]]);
  }

  return { el, update };
}

export const now = { id: "now", title: "Now", needs: may => may.watch ? "" : "INFO and LATENCY HISTOGRAM", make };
