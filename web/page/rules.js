// Rules about deadlines: policies, outboxes, and which clock the store goes by.
import { asText, count, duration, h, put, shown, time } from "./dom.js";
import { ReplyError } from "./resp.js";

const period = 2000; // between two looks, in ms
const words = { "KEYP.POLICY|LIST": ["KEYP.POLICY", "LIST"], "KEYP.OUTBOX|LIST": ["KEYP.OUTBOX", "LIST"], "KEYP.CLOCK|INFO": ["KEYP.CLOCK", "INFO"] };

// fields is a reply with fields as an object; texts stay bytes.
const fields = reply => Object.fromEntries([...reply].map(([name, value]) => [asText(name), value]));
const ms = n => duration(Number(n)); // one of very long is a BigInt
const chip = (text, bad) => h("li", bad ? { class: "bad" } : {}, text);

// says is what a policy does, in the words of KEYP.POLICY SET.
function says(p) {
  const list = [];
  if (p.default) list.push("DEFAULT " + ms(p.default));
  if (p.max) list.push("MAX " + ms(p.max) + " " + asText(p.over));
  if (p.jitter) list.push("JITTER " + p.jitter + " %");
  if (p.slide) list.push("SLIDE " + ms(p.slide) + (p.limit ? " LIMIT " + ms(p.limit) : ""));
  if (p.require) list.push("REQUIRE");
  return list;
}

const did = p => ["defaulted", "cut", "jittered", "refused", "slid"].filter(n => p[n]).map(n => count(p[n]) + " " + n);

function make(app) {
  const may = app.session.may, asked = Object.keys(words).filter(name => may[name]);
  const error = h("p", { class: "notice", role: "alert", hidden: true });
  const clock = h("dl"), clockNote = h("p", { class: "small soft" });
  const policies = h("tbody"), outboxes = h("tbody");
  let timer = null, shownView = false, round = 0;

  const table = (title, note, head, rows) => h("section", { class: "card" }, h("h2", {}, title), h("p", { class: "small soft" }, note),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      h("table", {}, h("thead", {}, h("tr", {}, ...head.map(([t, n]) => h("th", { scope: "col", class: n ? "n" : null }, t)))), rows)));
  const nothing = (columns, text) => h("tr", {}, h("td", { colspan: columns, class: "soft" }, text));

  const show = {
    "KEYP.POLICY|LIST": list => put(policies, list.map(fields).map(p => h("tr", {},
      h("td", { class: "key" }, shown(p.name)), h("td", { class: "key" }, shown(p.pattern)), h("td", { class: "n" }, p.db),
      h("td", {}, asText(p.mode)), h("td", {}, says(p).join(", ")), h("td", {}, did(p).join(", ") || "–"))),
      list.length ? null : nothing(6, "There is no policy.")),
    "KEYP.OUTBOX|LIST": list => put(outboxes, list.map(fields).map(o => h("tr", {},
      h("td", { class: "key" }, shown(o.name)), h("td", { class: "key" }, shown(o.pattern)), h("td", { class: "n" }, o.db),
      h("td", {}, (asText(o.type) === "any" ? "all types" : asText(o.type)) + (o.elements ? ", and elements" : "")),
      h("td", { class: "key" }, shown(o.stream)), h("td", { class: "n" }, count(o.written)),
      h("td", { class: "n" }, count(o.waiting) + (o.waiting ? ", from " + time(Number(o.oldest)) : "")), h("td", { class: "n" }, count(o.lost)),
      h("td", {}, h("ul", { class: "chips" }, o.error.length ? chip(shown(o.error), true) : null, o.full ? chip("refuses writes", true) : null, !o.error.length && !o.full ? chip("fine") : null)))),
      list.length ? null : nothing(9, "There is no outbox.")),
    "KEYP.CLOCK|INFO": reply => {
      const c = fields(reply), guarded = asText(c.state) === "guarded";
      put(clock, ...[["keys expire by", guarded ? "guarded time" : "the wall clock"], ["the store's time", time(Number(c.time))],
        ...(guarded ? [["the wall clock", time(Number(c.wall))], ["ahead by", ms(c.ahead)], ["guarded since", time(Number(c.since))], ["for at most", ms(c.patience)]] : [])]
        .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
      clockNote.textContent = guarded ? "The wall clock has stepped forward. If it is right now: KEYP.CLOCK CONFIRM. If it is wrong, set it right; nothing has expired by it." : "";
    },
  };

  // look asks for all that may be seen, and then again after a while, as long as the view is shown.
  async function look() {
    clearTimeout(timer);
    const mine = ++round;
    try {
      const replies = await app.runAll(0, asked.map(name => words[name]));
      if (mine !== round) return;
      const refused = [];
      replies.forEach((reply, i) => { if (reply instanceof ReplyError) refused.push(reply.message); else show[asked[i]](reply); });
      error.textContent = refused.join(" ");
      error.hidden = !refused.length;
    } catch (e) {
      if (mine !== round) return;
      error.textContent = e.message;
      error.hidden = false;
    }
    if (shownView) timer = setTimeout(look, period);
  }

  const el = h("section", {},
    h("div", { class: "head" }, h("h1", {}, "Rules")), error,
    may["KEYP.POLICY|LIST"] ? table("Policies", "Rules about the deadlines of keys that are written. Where several match, the most specific pattern decides. WARN counts what ENFORCE would do.",
      [["Name"], ["Pattern"], ["Database", 1], ["Mode"], ["Says"], ["Did, since it was set or the start"]], policies) : "",
    may["KEYP.OUTBOX|LIST"] ? table("Outboxes", "What expires of a pattern is reported in a stream.",
      [["Name"], ["Pattern"], ["Database", 1], ["Of"], ["Stream"], ["Written", 1], ["Waiting", 1], ["Lost", 1], ["State"]], outboxes) : "",
    may["KEYP.CLOCK|INFO"] ? h("section", { class: "card" }, h("h2", {}, "Clock"), clock, clockNote) : "");

  return {
    el,
    open: () => { shownView = true; look(); },
    leave: () => { shownView = false; round++; clearTimeout(timer); },
  };
}

export const rules = { id: "rules", title: "Rules", needs: may => Object.keys(words).some(name => may[name]) ? "" : "KEYP.POLICY LIST, KEYP.OUTBOX LIST or KEYP.CLOCK INFO", make };
