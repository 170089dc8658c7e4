// What the server does at present.
import { Lines } from "./chart.js";
import { bigKeys, events } from "./look.js";
import { asText, bytes, count, duration, h, micros, short, shown, time } from "./dom.js";

// byType sums the last count of keys by type over the databases, and says how old it is.
function byType(m) {
  const sums = new Map(), age = m.types && m.at - m.types.at;
  for (const { types } of m.types?.dbs ?? []) for (const [type, n] of Object.entries(types)) sums.set(type, (sums.get(type) ?? 0) + n);
  return [...[...sums].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).map(([type, n]) => ["of type " + type, count(n)]),
    ...(age > 10_000 ? [["types were counted", duration(age) + " ago"]] : [])];
}

function make(app) {
  const ops = new Lines("Commands a second, in the last two minutes", 170);
  const perSecond = h("strong", { class: "big" }, "–"), families = h("dl");
  const rate = h("strong", { class: "big" }, "–"), rates = h("dl");
  const used = h("strong", { class: "big" }, "–"), stack = h("div", { class: "stack", "aria-hidden": "true" }), owners = h("dl");
  const clients = h("strong", { class: "big" }, "–"), clientList = h("dl");
  const disk = h("strong", { class: "big" }, "–"), disks = h("dl");
  const keys = h("strong", { class: "big" }, "–"), keyList = h("dl");
  const waited = h("strong", { class: "big" }, "–"), waits = h("dl");
  const rows = h("tbody");
  const slow = h("tbody"), slowError = h("p", { class: "notice", role: "alert", hidden: true });
  const people = h("tbody"), peopleError = h("p", { class: "notice", role: "alert", hidden: true });
  const may = app.session.may, happened = may.events ? events(app) : null;
  let last = null;

  // listing is a table that is loaded when it is asked for.
  const listing = (title, load, error, head, rows) => card(title, h("button", { onclick: () => fetchInto(load, error) }, "Load"), error,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, h("thead", {}, h("tr", {}, ...head.map(t => h("th", { scope: "col" }, t)))), rows)));

  async function fetchInto(load, error) {
    error.hidden = true;
    try {
      await load();
    } catch (e) {
      error.textContent = e.message;
      error.hidden = false;
    }
  }

  async function loadSlow() {
    const list = await app.run(0, "SLOWLOG", "GET", 30);
    slow.replaceChildren(...list.map(([, at, took, words, from, name]) => h("tr", {}, h("td", {}, time(at * 1000)), h("td", { class: "n" }, micros(took)),
      h("td", { class: "key" }, words.map(w => shown(w, 60)).join(" ").slice(0, 300)), h("td", {}, [shown(from), name.length ? shown(name) : ""].filter(Boolean).join(" ")))));
    if (!list.length) slow.append(h("tr", {}, h("td", { colspan: 4, class: "soft" }, "Nothing was slow.")));
  }

  async function loadPeople() {
    const lines = asText(await app.run(0, "CLIENT", "LIST")).trim().split("\n").slice(0, 200);
    people.replaceChildren(...lines.map(line => {
      const field = Object.fromEntries(line.split(" ").map(f => [f.slice(0, f.indexOf("=")), f.slice(f.indexOf("=") + 1)]));
      return h("tr", {}, h("td", {}, field.addr), h("td", {}, (field.name || "–").slice(0, 100)), h("td", {}, field.user.slice(0, 100)), h("td", { class: "mono" }, field.cmd.replace("|", " ")), h("td", { class: "n" }, field.idle + " s"), h("td", { class: "n" }, bytes(Number(field["tot-mem"]))));
    }));
  }

  const card = (title, ...parts) => h("section", { class: "card" }, h("h2", {}, title), ...parts);
  const fill = (dl, list) => dl.replaceChildren(...list.flatMap(([name, value, swatch]) => [h("dt", {}, swatch && h("i", { class: "swatch " + swatch }), name), h("dd", {}, value)]));

  const el = h("section", {},
    h("div", { class: "head" }, h("h1", {}, "Now")),
    h("div", { class: "grid wide" },
      card("Commands a second", perSecond, ops.el, families),
      card("Latency by command", h("p", { class: "soft small" }, "Of the last ten seconds, of the work alone, without the wait for the log. Upper bounds: each is at most twice what it was."),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Latency by command" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Command"), ...["a second", "p50", "p99", "p99.9"].map(t => h("th", { class: "n", scope: "col" }, t)))), rows)))),
    h("div", { class: "grid" },
      card("How long clients wait", waited, h("p", { class: "soft small" }, "p99 of writes in the last ten seconds, from request to reply, with the sync of the log."), waits),
      card("Memory", used, stack, owners),
      card("Keys", keys, keyList),
      card("Keys found", rate, rates),
      card("Clients", clients, clientList),
      card("Log and checkpoint", disk, disks)),
    may.events || may.RANDOMKEY && may["MEMORY|USAGE"] ? h("div", { class: "grid wide" }, may.RANDOMKEY && may["MEMORY|USAGE"] ? bigKeys(app) : "", happened?.el ?? "") : "",
    app.session.may["SLOWLOG|GET"] || app.session.may["CLIENT|LIST"] ? h("div", { class: "grid wide" },
      app.session.may["SLOWLOG|GET"] ? listing("Slow log", loadSlow, slowError, ["At", "Took", "Command", "Client"], slow) : "",
      app.session.may["CLIENT|LIST"] ? listing("Who is connected", loadPeople, peopleError, ["Address", "Name", "User", "Last command", "Idle", "Memory"], people) : "") : "");

  function update(m) {
    const u = m.usage, sum = Object.values(m.point.ops).reduce((a, b) => a + b, 0);
    perSecond.textContent = short(sum);
    const { reads, writes } = m.replies, wait = us => us === 0 ? "–" : micros(us);
    waited.textContent = wait(writes.p99);
    fill(waits, [["writes, p50", wait(writes.p50)], ["writes, p99.9", wait(writes.p999)], ["reads, p50", wait(reads.p50)], ["reads, p99", wait(reads.p99)], ["reads, p99.9", wait(reads.p999)]]);
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
    fill(keyList, [["with a deadline", count(u.keys.expiring)], ["in memory", count(u.keys.in_memory)], ...u.keys.databases.slice(0, 16).map(d => ["database " + d.db, count(d.keys)]), ...byType(m)]);

    disk.textContent = bytes(u.disk.log);
    fill(disks, [["log, a checkpoint at", bytes(u.disk.log_limit)], ["not durable yet", bytes(m.store.pending)], ["sync, p99", micros(m.store.sync_p99)],
      ["checkpoint", m.store.running ? "running" : m.store.failed ? "failed" : m.store.checkpoint ? duration(Math.max(0, m.at - m.store.checkpoint)) + " ago" : "none yet"],
      ["changes since", count(m.store.changes)], ["data file", bytes(u.disk.data_file)], ["disk, free", bytes(u.disk.free)]]);
  }

  return { el, update, leave: () => happened?.leave() };
}

export const now = { id: "now", title: "Now", needs: may => may.watch ? "" : "INFO and LATENCY HISTOGRAM", make };
