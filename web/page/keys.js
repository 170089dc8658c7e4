// Keys: found by pattern and type, shown as what they are, given deadlines and deleted. Nothing here changes a value.
import { ask } from "./dialog.js";
import { asText, bytes, count, duration, fromBase64, h, put, shown, time, toBase64 } from "./dom.js";
import { encode, ReplyError } from "./resp.js";

const types = ["string", "hash", "list", "set", "zset", "stream", "lease", "limit", "delay"];
const scanCount = 200, scanSteps = 20, pageSize = 100, elements = 100, most = 1 << 20, mostLaidOut = 8 * most;
const name = data => asText(data) ?? "";
const ttl = ms => ms === -1 ? "none" : ms < 0 ? "–" : duration(Number(ms)); // one of very long is a BigInt

function hex(data) {
  return Array.from(data, b => b.toString(16).padStart(2, "0")).join(" ").replace(/((?:.. ){15}..) /g, "$1\n");
}

// plain is text that a text field gives back as it was: without \r and other controls.
const plain = data => { const t = asText(data); return t === null || /[^\P{Cc}\n\t]/u.test(t) ? null : t; };

// laidOut is JSON with its parts on lines of their own, and each of them as it is: parsing would round numbers and drop
// doubled names. What is no JSON, or so deep that its indentation would be very long, stays as it is. With it comes what to say.
function laidOut(text) {
  try { JSON.parse(text); } catch { return [text, "This is no JSON, so it is shown as it is."]; }
  let depth = 0, length = 0;
  const line = () => { length += 2 * depth; return length > mostLaidOut ? "" : "\n" + "  ".repeat(depth); };
  const out = text.match(/"(?:[^"\\]+|\\.)*"|[^\s"[\]{},:]+|[[{]\s*[\]}]|[[\]{},:]/g).map(part => {
    if (part === "[" || part === "{") { depth++; return part + line(); }
    if (part === "]" || part === "}") { depth--; return line() + part; }
    return part === "," ? part + line() : part === ":" ? ": " : part.length > 1 && "[{".includes(part[0]) ? part[0] + part.at(-1) : part;
  });
  return length > mostLaidOut ? [text, "Laid out this would be very long, so it is shown as it is."] : [out.join(""), "Laid out to be read."];
}

// viewer shows bytes as text, as JSON or as hexadecimal digits.
function viewer(data) {
  const area = h("textarea", { rows: 8, "aria-label": "Value", spellcheck: "false", readonly: true }), note = h("p", { class: "small soft", role: "status" });
  const kind = h("select", { "aria-label": "Shown as", onchange: put }, ...(plain(data) === null ? ["hex"] : ["text", "JSON", "hex"]).map(k => h("option", {}, k)));
  function put() {
    [area.value, note.textContent] = kind.value === "hex" ? [hex(data), ""] : kind.value === "JSON" ? laidOut(asText(data)) : [asText(data), ""];
  }
  put();
  return h("div", { class: "editor" }, kind, area, note);
}

// deadline are fields for a time from now on or a date; words are what follows a key in a command.
function deadline() {
  const amount = h("input", { type: "number", min: 1, max: 1e8, value: 60, required: true, "aria-label": "Amount" });
  const unit = h("select", { "aria-label": "Unit" }, h("option", { value: 1000 }, "seconds"), h("option", { value: 60000 }, "minutes"), h("option", { value: 3600000 }, "hours"), h("option", { value: 86400000 }, "days"));
  return { el: h("p", { class: "row" }, "In ", amount, " ", unit), ms: () => Math.round(Number(amount.value) * Number(unit.value)) };
}

function make(app) {
  const may = app.session.may;
  let db = 0, cursor = "0", scanned = 0, rows = [], search = 0, opened = null;
  const database = app.databaseChoice({ id: "keys-db" });
  const pattern = h("input", { type: "search", id: "keys-pattern", placeholder: "*", size: 18 });
  const type = h("select", { id: "keys-type" }, h("option", { value: "" }, "any"), ...types.map(t => h("option", {}, t)));
  const status = h("p", { class: "soft small", role: "status" }), error = h("p", { class: "notice", role: "alert", hidden: true });
  const body = h("tbody"), more = h("button", { onclick: () => find(false), hidden: true }, "Look on");
  const all = h("input", { type: "checkbox", "aria-label": "Select all that are shown", onchange: () => { for (const r of rows) r.box.checked = all.checked; selected(); } });
  const selection = h("div", { class: "row selection", role: "group", "aria-label": "Selection" });
  const panel = h("section", { class: "card", id: "key", hidden: true, tabindex: "-1", "aria-label": "Key" });
  const el = h("section", {},
    h("div", { class: "head" }, h("h1", { class: "grow" }, "Keys")),
    h("section", { class: "card" },
      h("form", { class: "row", onsubmit: e => { e.preventDefault(); find(true); } },
        h("label", { class: "field" }, "Database", database), h("label", { class: "field" }, "Pattern", pattern), h("label", { class: "field" }, "Type", type), h("button", { class: "main" }, "Find")),
      error, status, selection,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Keys found" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { class: "box" }, all), h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Type"), h("th", { class: "n", scope: "col" }, "Expires in"))), body)), more),
    panel);

  const failed = (where, e) => { where.textContent = e?.message ?? ""; where.hidden = !e; };

  // find looks at some thousand keys at most.
  async function find(fromStart) {
    const mine = ++search;
    if (fromStart) {
      db = Number(database.value);
      cursor = "0";
      scanned = 0;
      rows = [];
      body.replaceChildren();
    }
    failed(error);
    status.textContent = "Looking…";
    try {
      for (let step = 0, found = 0; step < scanSteps && found < pageSize; step++) {
        const words = ["SCAN", cursor, "MATCH", pattern.value || "*", "COUNT", scanCount, ...(type.value ? ["TYPE", type.value] : [])];
        const [next, names] = await app.run(db, ...words);
        if (mine !== search) return;
        const about = names.length ? await app.runAll(db, names.flatMap(k => [["TYPE", k], ["PTTL", k]])) : [];
        if (mine !== search) return;
        names.forEach((k, i) => add(k, about[2 * i], about[2 * i + 1]));
        found += names.length;
        scanned += scanCount;
        cursor = name(next);
        if (cursor === "0") break;
      }
      status.textContent = `${count(rows.length)} ${rows.length === 1 ? "key" : "keys"}${cursor === "0" ? "." : ` in about ${count(scanned)} that were looked at; there are more.`}`;
    } catch (e) {
      status.textContent = "";
      failed(error, e);
    }
    more.hidden = cursor === "0";
    selected();
  }

  function add(key, kind, left) {
    const box = h("input", { type: "checkbox", "aria-label": "Select " + shown(key, 40), onchange: selected });
    const words = v => v instanceof ReplyError ? "no permission" : null;
    rows.push({ key, box });
    body.append(h("tr", {}, h("td", { class: "box" }, box), h("td", { class: "key" }, h("button", { class: "plain", onclick: () => go(db, key) }, shown(key))),
      h("td", {}, words(kind) ?? name(kind)), h("td", { class: "n" }, words(left) ?? ttl(left))));
  }

  function selected() {
    const chosen = rows.filter(r => r.box.checked).map(r => r.key), n = chosen.length, words = `${count(n)} ${n === 1 ? "key" : "keys"}`;
    all.checked = n > 0 && n === rows.length;
    if (n === 0) {
      selection.replaceChildren();
      return;
    }
    const apply = async make => {
      const replies = await app.runAll(db, chosen.map(make)), bad = replies.filter(r => r instanceof ReplyError);
      await find(true);
      if (bad.length) throw new Error(`${count(bad.length)} of ${words} failed: ${bad[0].message}`);
    };
    put(selection, h("strong", {}, words + " selected"),
      may.PEXPIRE && h("button", { onclick: () => { const d = deadline(); ask(`Set the deadline of ${words}`, [d.el], "Set for " + words, () => apply(k => ["PEXPIRE", k, d.ms()])); } }, "Set deadline…"),
      may.PERSIST && h("button", { onclick: () => ask(`Remove the deadline of ${words}`, [h("p", {}, "They will not expire any more.")], "Remove from " + words, () => apply(k => ["PERSIST", k])) }, "Remove deadline…"),
      may.UNLINK && h("button", { class: "danger", onclick: () => ask(`Delete ${words}`, [h("p", {}, "Nothing restores them.")], "Delete " + words, () => apply(k => ["UNLINK", k]), true) }, "Delete…"));
  }

  // go opens a key under its address, so that a link leads to it.
  function go(at, key) {
    history.replaceState(null, "", `#keys/${at}/${encodeURIComponent(toBase64(key))}`);
    return show(at, key);
  }

  async function show(at, key) {
    opened = { at, key };
    const mine = opened, here = h("p", { class: "notice", role: "alert", hidden: true });
    panel.hidden = false;
    let kind, left;
    try {
      const replies = await app.runAll(at, [["TYPE", key], ["PTTL", key]]);
      if (replies[0] instanceof ReplyError) throw replies[0];
      [kind, left] = [name(replies[0]), replies[1] instanceof ReplyError ? -3 : Number(replies[1])];
    } catch (e) {
      kind = "";
      failed(here, e);
    }
    if (mine !== opened) return;
    // change does something to the key and shows it again, or why that failed.
    const change = async work => {
      try {
        await work();
        await again(at, key);
      } catch (e) { failed(here, e); }
    };
    const value = h("div");
    panel.replaceChildren(
      h("div", { class: "head" }, h("h2", { class: "grow mono" }, shown(key, 300)), close()),
      h("p", { class: "row small" }, h("span", { class: "soft" }, `${kind === "none" ? "There is no such key" : kind} · database ${at} · ${bytes(key.length)} of name · ${left === -1 ? "no deadline" : left >= 0 ? `expires in ${duration(left)}, at ${time(Date.now() + left)}` : ""}`)),
      kind !== "none" && kind ? h("div", { class: "row" },
        may.PEXPIRE ? h("button", { onclick: () => { const d = deadline(); ask("Set the deadline", [d.el], "Set", async () => { await app.run(at, "PEXPIRE", key, d.ms()); await again(at, key); }); } }, left >= 0 ? "Change deadline…" : "Set deadline…") : "",
        may.PERSIST && left >= 0 ? h("button", { onclick: () => change(() => app.run(at, "PERSIST", key)) }, "Remove deadline") : "",
        may.UNLINK ? h("button", { class: "danger", onclick: () => ask("Delete 1 key", [h("p", { class: "mono" }, shown(key))], "Delete 1 key", async () => { await app.run(at, "UNLINK", key); panel.hidden = true; await find(true); }, true) }, "Delete…") : "",
        h("button", { onclick: () => show(at, key) }, "Load again")) : "",
      here, value);
    if (kind && kind !== "none") {
      try { await (kind === "string" ? showString : kind === "lease" ? showLease : kind === "delay" ? showDelay : kind === "limit" ? showLimit : showElements)(at, key, kind, value, change); } catch (e) { failed(here, e); }
    }
    if (mine === opened) panel.scrollIntoView({ block: "nearest" });
  }

  const close = () => h("button", { onclick: () => { panel.hidden = true; opened = null; history.replaceState(null, "", "#keys"); } }, "Close");
  const isOpen = (at, key) => opened && opened.at === at && toBase64(opened.key) === toBase64(key);

  // again shows a key as it is now, unless another one is shown by now.
  const again = (at, key) => isOpen(at, key) ? show(at, key) : null;

  async function showString(at, key, _, to) {
    const [length, data] = await app.runAll(at, [["STRLEN", key], ["GETRANGE", key, 0, most - 1]]);
    if (data instanceof ReplyError) throw data;
    to.replaceChildren(h("p", { class: "small soft" }, bytes(Number(length)) + (data.length === length ? "" : `; the first ${bytes(most)} are shown`)), viewer(data));
  }

  // of gives the fields of a reply that is a map, line is a row of a table.
  const of = list => { const m = new Map([...list].map(([k, v]) => [name(k), v])); return k => m.get(k); };
  const line = (title, ...cells) => h("tr", {}, h("th", { scope: "row" }, title), h("td", { class: "mono" }, ...cells));

  // A lease is shown with who holds it, and who waits for it.
  async function showLease(at, key, kind, to) {
    if (!may["KEYP.LEASE|INFO"]) {
      to.replaceChildren(h("p", { class: "small soft" }, "To show a lease takes the right to run KEYP.LEASE INFO."));
      return;
    }
    const lease = of(await app.run(at, "KEYP.LEASE", "INFO", key)), until = Number(lease("deadline"));
    const waiting = Number(lease("waiting")), queue = lease("queue").map(of);
    to.replaceChildren(h("table", {}, h("tbody", {}, line("State", name(lease("state"))), line("Owner", shown(lease("owner"), 200)), line("Token", String(lease("token"))),
      line("Held until", until ? time(until) : "somebody ends it"), line("Delay after that", duration(Number(lease("delay")))), line("Waiting", count(waiting)))));
    if (queue.length) to.append(h("h2", {}, "Queue"), h("table", {}, h("thead", {}, h("tr", {}, ...["Owner", "Client", "Waits since"].map(t => h("th", { scope: "col" }, t)))),
      h("tbody", {}, ...queue.map(w => h("tr", {}, h("td", { class: "key" }, shown(w("owner"), 200)), h("td", {}, String(w("client"))), h("td", {}, time(Number(w("since")))))))),
    waiting > queue.length ? h("p", { class: "small soft" }, `… ${count(waiting - queue.length)} more`) : "");
  }

  // A delay queue is shown with its jobs in the order in which they are due, a hundred at a time. Where a page ends the next one begins, so
  // that a job which moves meanwhile may be seen twice, or not.
  async function showDelay(at, key, kind, to) {
    if (!may["KEYP.DELAY|INFO"] || !may["KEYP.DELAY|RANGE"]) {
      to.replaceChildren(h("p", { class: "small soft" }, "To show a delay queue takes the right to run KEYP.DELAY INFO and RANGE."));
      return;
    }
    const info = of(await app.run(at, "KEYP.DELAY", "INFO", key)), rows = h("tbody"), more = h("button", { onclick: () => page().catch(e => alertIn(to, e)) }, "Show more");
    let from = "-";
    const page = async () => {
      const jobs = await app.run(at, "KEYP.DELAY", "RANGE", key, from, "+", "COUNT", elements);
      for (const [place, id, due, deliveries, receipt, payload] of jobs) {
        from = "(" + name(place);
        rows.append(h("tr", {}, h("td", {}, time(Number(due))), h("td", { class: "key" }, shown(id, 200)), h("td", {}, count(Number(deliveries))), h("td", {}, receipt === null ? "waits" : "delivered"),
          h("td", { class: "mono" }, shown(payload, 200))));
      }
      more.hidden = jobs.length < elements;
    };
    await page();
    to.replaceChildren(h("table", {}, h("tbody", {}, line("Jobs", count(Number(info("jobs")))), line("Due", count(Number(info("due")))), line("Delivered", count(Number(info("delivered")))),
      line("The first is due", time(Number(info("first")))), line("The last is due", time(Number(info("last")))), line("Clients that wait", count(Number(info("waiting")))))),
    h("h2", {}, "Jobs"), h("table", {}, h("thead", {}, h("tr", {}, ...["Due", "Id", "Deliveries", "State", "Payload"].map(t => h("th", { scope: "col" }, t)))), rows), more);
  }

  // Of limits the key has what they count. How much that leaves only a call says that has their definitions: so they are typed in.
  async function showLimit(at, key, kind, to) {
    if (!may["KEYP.LIMIT|INFO"]) {
      to.replaceChildren(h("p", { class: "small soft" }, "To show what limits count takes the right to run KEYP.LIMIT INFO."));
      return;
    }
    const info = of(await app.run(at, "KEYP.LIMIT", "INFO", key)), limits = info("limits").map(of), held = info("held"), all = Number(info("reservations"));
    const number = n => n === null ? "" : count(Number(n)), table = (heads, rows) => h("table", {}, h("thead", {}, h("tr", {}, ...heads.map(t => h("th", { scope: "col" }, t)))), h("tbody", {}, ...rows));
    to.replaceChildren(table(["Limit", "Kind", "Admitted", "Reserved", "Span", "Whole in"], limits.map((l, i) => h("tr", {}, ...[count(i + 1), l("kind") === null ? "" : name(l("kind")), number(l("admitted")), number(l("reserved")),
      l("span") === null ? "" : duration(Number(l("span"))), duration(Number(l("whole")))].map(t => h("td", {}, t))))));
    if (may["KEYP.LIMIT|PEEK"]) to.append(limitsLeft(at, key));
    if (held.length) to.append(h("h2", {}, "Reservations"), table(["Id", "Cost", "Until"], held.map(([id, c, until]) => h("tr", {}, h("td", { class: "key" }, shown(id, 200)), h("td", {}, count(Number(c))), h("td", {}, time(Number(until)))))),
    all > held.length ? h("p", { class: "small soft" }, `… ${count(all - held.length)} more`) : "");
  }

  // limitsLeft shows what is left of limits that are typed in as a call has them.
  function limitsLeft(at, key) {
    const field = h("input", { id: "key-limits", placeholder: "TOKENS 10 1 1000 WINDOW 100 60000", size: 40, required: true }), reply = h("div", { role: "status" });
    return h("form", { onsubmit: async e => {
      e.preventDefault();
      try {
        const [, , , left, whole] = await app.run(at, "KEYP.LIMIT", "PEEK", key, 1, ...field.value.trim().split(/\s+/));
        reply.replaceChildren(h("table", {}, h("tbody", {}, ...left.map((n, i) => line(`Left of limit ${i + 1}`, `${count(Number(n))}, whole in ${duration(Number(whole[i]))}`)))));
      } catch (e) { reply.replaceChildren(h("p", { class: "notice", role: "alert" }, e.message)); }
    } }, h("label", { class: "field" }, "Limits, as a call has them", field), " ", h("button", {}, "Show what is left"), reply);
  }

  function alertIn(to, e) { to.append(h("p", { class: "notice", role: "alert" }, e.message)); }

  // Members of sets and sorted sets have deadlines by KeyDB's commands.
  const memberTimes = { times: (k, list) => list.map(e => ["PTTL", k, e]), timed: "PTTL", expire: (k, e, ms) => ["EXPIREMEMBER", k, e, ms, "ms"], expires: "EXPIREMEMBER", persist: (k, e) => ["PERSIST", k, e], persists: "PERSIST" };

  // How the elements of each type are read, and their deadlines changed.
  const kinds = {
    hash: { length: "HLEN", scan: "HSCAN", columns: ["Field", "Value"], pairs: true,
      times: (k, list) => [["HPTTL", k, "FIELDS", list.length, ...list]], timed: "HPTTL", expire: (k, e, ms) => ["HPEXPIRE", k, ms, "FIELDS", 1, e], expires: "HPEXPIRE", persist: (k, e) => ["HPERSIST", k, "FIELDS", 1, e], persists: "HPERSIST" },
    set: { length: "SCARD", scan: "SSCAN", columns: ["Member"], ...memberTimes },
    zset: { length: "ZCARD", scan: "ZSCAN", columns: ["Member", "Score"], pairs: true, ...memberTimes },
    list: { length: "LLEN", columns: ["Index", "Value"] },
    stream: { length: "XLEN", columns: ["ID", "Fields"] },
  };

  async function showElements(at, key, kind, to, change) {
    const k = kinds[kind];
    if (!k) return;
    const list = h("tbody"), table = h("table", {}, h("thead", {}, h("tr", {}, ...k.columns.map(c => h("th", { scope: "col" }, c)), k.times && h("th", { class: "n", scope: "col" }, "Expires in"), h("th", {}, ""))), list);
    const next = h("button", { onclick: () => read() }, "More"), status = h("p", { class: "small soft" });
    to.replaceChildren(status, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Elements" }, table), next);
    let place = kind === "stream" ? "+" : kind === "list" ? 0 : "0", seen = 0;

    async function read() {
      next.disabled = true;
      let found = [], end = true;
      if (kind === "list") {
        const part = await app.run(at, "LRANGE", key, place, place + elements - 1);
        found = part.map((v, i) => [encode(String(place + i)), v, place + i]);
        place += part.length;
        end = part.length < elements;
      } else if (kind === "stream") {
        const part = await app.run(at, "XREVRANGE", key, place, "-", "COUNT", elements);
        found = part.map(([id, fields]) => [id, fields]);
        end = part.length < elements;
        if (!end) place = "(" + name(part.at(-1)[0]);
      } else {
        const [cursor, part] = await app.run(at, k.scan, key, place, "COUNT", elements);
        const flat = part.flat();
        for (let i = 0; i < flat.length; i += k.pairs ? 2 : 1) found.push(flat.slice(i, i + (k.pairs ? 2 : 1)));
        place = name(cursor);
        end = place === "0";
      }
      const times = k.times && may[k.timed] && found.length ? (await app.runAll(at, k.times(key, found.map(e => e[0])))).flat() : [];
      found.forEach((e, i) => list.append(row(e, times[i])));
      seen += found.length;
      const length = may[k.length] ? Number(await app.run(at, k.length, key)) : seen;
      status.textContent = `${count(length)} ${length === 1 ? "element" : "elements"}${end ? "" : `, ${count(seen)} shown`}`;
      next.hidden = end;
      next.disabled = false;
    }

    function row(e, left) {
      const pairs = list => [...list.slice(0, 2 * elements).flatMap((f, i) => i % 2 ? [] : [h("div", {}, shown(f, 200) + " = " + shown(list[i + 1], 400))]),
        list.length > 2 * elements && h("div", { class: "soft" }, `… ${count(list.length / 2 - elements)} more`)].filter(Boolean);
      const cell = v => h("td", { class: "key" }, Array.isArray(v) ? pairs(v) : v instanceof Uint8Array ? shown(v, 400) : String(v));
      const dated = typeof left === "number" || typeof left === "bigint";
      // timed runs a command about the element's deadline.
      const timed = async words => {
        if ([0, -2].includes([await app.run(at, ...words)].flat()[0])) throw new Error("The element or its deadline is gone.");
      };
      return h("tr", {}, ...e.slice(0, 2).map(cell), k.times && h("td", { class: "n" }, dated ? ttl(left) : ""),
        h("td", { class: "n" },
          k.expire && may[k.expires] ? h("button", { class: "plain", onclick: () => {
            const d = deadline();
            ask("Set the deadline of " + shown(e[0], 60), [d.el], "Set", async () => { await timed(k.expire(key, e[0], d.ms())); await again(at, key); });
          } }, "set deadline") : "", " ",
          k.persist && may[k.persists] && dated && left >= 0 ? h("button", { class: "plain", onclick: () => change(() => timed(k.persist(key, e[0]))) }, "remove deadline") : ""));
    }

    await read();
    if (kind === "stream" && may["XINFO|GROUPS"]) {
      const groups = await app.run(at, "XINFO", "GROUPS", key);
      const get = (g, field) => { for (const [k2, v] of g) if (name(k2) === field) return v instanceof Uint8Array ? shown(v) : v === null ? "–" : String(v); return ""; };
      if (groups.length) to.append(h("h2", {}, "Groups"), h("table", {}, h("thead", {}, h("tr", {}, ...["Group", "Consumers", "Pending", "Last ID", "Lag"].map(t => h("th", { scope: "col" }, t)))),
        h("tbody", {}, ...groups.slice(0, elements).map(g => h("tr", {}, ...["name", "consumers", "pending", "last-delivered-id", "lag"].map(f => h("td", { class: "mono" }, get(g, f))))))), groups.length > elements ? h("p", { class: "small soft" }, `… ${count(groups.length - elements)} more`) : "");
    }
  }

  // open shows the key that an address names, if it names one.
  function open(address) {
    const [at, ...parts] = address.split("/"), link = parts.join("/");
    let key = null;
    try {
      if (link && !/^\d+$/.test(at)) throw new RangeError("no database");
      key = link ? fromBase64(decodeURIComponent(link)) : null;
    } catch {
      opened = null;
      panel.hidden = false;
      put(panel, h("div", { class: "head" }, h("p", { class: "notice grow", role: "alert" }, "This address names no key: it is cut or has been changed."), close()));
    }
    if (key && !isOpen(Number(at), key)) show(Number(at), key);
    else if (!rows.length && !scanned) find(true);
  }

  return { el, open };
}

export const keys = { id: "keys", title: "Keys", needs: may => may.SCAN ? "" : "SCAN", make };
