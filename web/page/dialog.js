import { h } from "./dom.js";

// ask shows a question with fields, and calls done with their values when it is answered; an error of that is
// shown in the dialog.
export function ask(title, parts, button, done, danger) {
  const error = h("p", { class: "notice", role: "alert", hidden: true });
  const submit = h("button", { class: danger ? "danger" : "main" }, button);
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() },
    h("form", { onsubmit: async e => {
      e.preventDefault();
      submit.disabled = true;
      try {
        await done();
        dialog.close();
      } catch (failure) {
        error.textContent = failure.message;
        error.hidden = false;
      }
      submit.disabled = false;
    } }, h("h2", {}, title), ...parts, error,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit)));
  document.body.append(dialog);
  dialog.showModal();
}
