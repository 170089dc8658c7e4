// The group that the server is a member of: who leads, how far the members are, and whether they hear each other.
import { bytes, count, duration, h, shown } from "./dom.js";

const columns = ["Member", "Role", "Behind", "Heard", "To be sent", "Link"];
const known = (n, text) => n < 0 ? "–" : text(n);
const ago = ms => ms < 1000 ? "now" : duration(ms) + " ago";

// does is what a member does, in a word.
const does = m => m.leads ? "leader" : m.learner ? "learner" : "follower";

function make() {
  const role = h("strong", { class: "big" }, "–"), note = h("p", { class: "notice", hidden: true }), facts = h("dl"), snapshot = h("p", { class: "small soft" }), rows = h("tbody");
  const el = h("section", {},
    h("div", { class: "head" }, h("h1", {}, "Group")), note,
    h("div", { class: "grid wide" },
      h("section", { class: "card" }, h("h2", {}, "This member"), role, facts, snapshot),
      h("section", { class: "card" }, h("h2", {}, "Members"),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Members" },
          h("table", {}, h("thead", {}, h("tr", {}, ...columns.map((t, i) => h("th", { scope: "col", class: i > 1 && i < 5 ? "n" : null }, t)))), rows)),
        h("p", { class: "small soft" }, "Behind is what a member has yet to get on its disk. Followers know that, and whether messages arrive, of themselves and the leader only."))));

  function update(m) {
    const g = m.group;
    note.hidden = Boolean(g) && !g.waiting;
    note.textContent = !g ? "The server is in no group any more." : g.waiting ? "This member " + g.waiting + "." : "";
    if (!g) return;
    role.textContent = g.role;
    const list = [["term", count(g.term)], ["elections seen", count(g.elections)], ["leader", shown(g.members.find(o => o.leads)?.at ?? "not known")],
      ["may read by itself", g.lease ? "yes" : "no"], ["not committed", bytes(g.commit_lag)], ["not applied", bytes(g.apply_lag)],
      ["leader heard", ago(g.heard)], ["clock ahead of the group's time", g.skew + " ms"]];
    facts.replaceChildren(...list.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    snapshot.textContent = g.snapshot_size ? `A snapshot is ${g.receiving ? "received" : "sent"}: ${bytes(g.snapshot_done)} of ${bytes(g.snapshot_size)}.` : "";
    rows.replaceChildren(...g.members.map(o => h("tr", {}, h("td", { class: "key", title: o.node }, shown(o.at) + (o.self ? ", this one" : "")), h("td", {}, does(o)),
      h("td", { class: "n" }, known(o.lag, bytes)), h("td", { class: "n" }, o.self ? "–" : known(o.contact, ago)), h("td", { class: "n" }, bytes(o.unsent)), h("td", {}, known(o.up === null ? -1 : 1, () => o.up ? "up" : "down")))));
  }

  return { el, update };
}

export const group = { id: "group", title: "Group", when: session => session.group, needs: may => may.watch ? "" : "INFO and LATENCY HISTOGRAM", make };
