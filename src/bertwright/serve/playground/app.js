// The page: the panels with their forms, the chooser of models, the form for the API key, and links
// that fill in and run a panel.
//
// A link has the form `#PANEL?field=value&...`. It is updated at every run, so the address of the
// page can be shared. The part after the `#` is never sent to the server, so no text is in its log.

import { attention } from "./attention.js";
import { command, h, receipt } from "./dom.js";
import { panels as generated } from "./generation.js";
import { ServerError, models, useKey } from "./server.js";
import { panels as vectors } from "./vectors.js";
import { panels as words } from "./words.js";

const PANELS = [...words, ...generated, ...vectors, attention];
const CUT = {
  name: "truncate", kind: "check", value: false, label: "Cut what is too long (else it is an error)",
};

const main = document.getElementById("main");
const chooser = document.getElementById("model");
const keyForm = document.getElementById("key-form");
/** The models of the server. */
let known = [];
/** Panel -> its form with the values that were entered, for panels that were left. */
const drafts = new Map();
/** Cancels the running request when the panel is left; null: none is running. */
let stop = null;

function current() {
  return known.find((model) => model.name === chooser.value);
}

/** Return why a panel cannot be used with a model, or "" if it can. */
function lack(panel, model) {
  if (!panel.kinds) return "";
  if (model.heads.some((head) => panel.kinds.includes(head.kind))) return "";
  return `${model.name} has no such head: this panel needs ${panel.needs}.`;
}

/** Return the first panel that can be used with a model. */
function usable(model) {
  return PANELS.find((panel) => offered(panel) && !lack(panel, model));
}

/** Return whether a text is prose: examples with markup or code would show little. */
function isProse(text) {
  return !/[<>{}`|\\*=#~^]|::|__|\.\. /.test(text);
}

/** Return whether the page shows a panel. An optional panel is shown if a model can use it. */
function offered(panel) {
  return !panel.optional || known.some((model) => !lack(panel, model));
}

function address() {
  const [name, query = ""] = location.hash.slice(1).split("?", 2);
  return { panel: PANELS.find((p) => p.name === name), given: new URLSearchParams(query) };
}

function control(field, id, given, model) {
  const value = given ?? field.example?.(model.examples.filter(isProse), model) ?? field.value;
  const shared = { id, name: field.name, autocomplete: "off" };
  switch (field.kind) {
    case "long":
    case "lines":
      return h("textarea", { ...shared, rows: field.rows ?? 3, dir: "auto", required: true, value });
    case "line":
      return h("input", { ...shared, type: "text", dir: "auto", required: !field.spare, value });
    case "count":
      return h("input", { ...shared, type: "number", min: field.least, max: field.most,
        step: field.step ?? 1, value });
    case "check":
      return h("input", { ...shared, type: "checkbox", checked: value === true || value === "true" });
    case "choice": {
      const list = h("select", shared, field.choices(model).map(([v, shown]) =>
        h("option", { value: v }, shown)));
      list.value = value;
      if (list.selectedIndex < 0) list.selectedIndex = 0;
      return list;
    }
    default:
      return h("input", { ...shared, type: "hidden", value });
  }
}

function row(field, given, model) {
  const id = `field-${field.name}`;
  const input = control(field, id, given, model);
  if (field.kind === "kept" || (field.few && input.options.length < 2)) {
    return h("div", { hidden: true }, input);
  }
  const label = h("label", { for: id }, field.label);
  if (field.kind === "check") return h("div", { class: "row check" }, input, label);
  const short = ["count", "choice"].includes(field.kind);
  const insert = field.insert && h("button", { type: "button", class: "insert", onclick: () => {
    input.setRangeText(field.insert, input.selectionStart, input.selectionEnd, "end");
    input.focus();
  } }, `Insert ${field.insert}`);
  return h("div", { class: short ? "row short" : "row" },
    h("div", { class: "label" }, label, insert || null), input);
}

/** Return the values of a form as the panel's `run` takes them; an error names the wrong field. */
function read(panel, form) {
  const values = {};
  for (const field of [...panel.fields, CUT]) {
    const { name, kind, label, least = 1, most = 100 } = field;
    const input = form.elements[name];
    const wrong = (message) =>
      Object.assign(new Error(`${label}: ${message}`), { field: input });
    input.removeAttribute("aria-invalid");
    if (kind === "check") values[name] = input.checked;
    else if (kind === "count") {
      const given = Number(input.value);
      if (!input.value || !(field.step || Number.isInteger(given)) || given < least || given > most)
        throw wrong(`${input.value || "nothing"} is given; expected ${least} to ${most}.`);
      values[name] = given;
    } else if (kind === "lines") {
      const rows = input.value.split("\n").filter((line) => line.trim());
      if (rows.length < least || rows.length > most)
        throw wrong(`there are ${rows.length}; expected ${least} to ${most}.`);
      values[name] = rows;
    } else if ((kind === "long" || kind === "line") && !field.spare && !input.value.trim())
      throw wrong("nothing is written here yet.");
    else if (input.value !== "" || !field.few) values[name] = input.value;
  }
  return values;
}

function keepAddress(panel, form) {
  const query = new URLSearchParams({ model: chooser.value });
  for (const field of [...panel.fields, CUT]) {
    const input = form.elements[field.name];
    const value = field.kind === "check" ? `${input.checked}` : input.value;
    if (value !== `${field.value}` || field.kind === "long") query.set(field.name, value);
  }
  history.replaceState(null, "", `#${panel.name}?${query}`);
}

/** Copy the values of a form into the form that is shown. */
function carry(form) {
  const shown = main.querySelector("form");
  for (const input of form?.elements ?? []) {
    const typed = input.name && input.type !== "checkbox" && input.tagName !== "SELECT";
    if (typed) shown.elements[input.name].value = input.value;
  }
}

function show(panel, given, model) {
  stop?.();
  if (main.dataset.panel) drafts.set(main.dataset.panel, main.querySelector("form"));
  const why = lack(panel, model);
  const status = h("span", { class: "soft", role: "status" });
  const result = h("section", { class: "result", "aria-label": "Result", tabindex: "-1" });
  let controller = new AbortController();
  const halt = h("button", { type: "button", hidden: true, onclick: () => controller.abort() }, "Stop");
  const form = h("form", { class: "panel", "aria-describedby": "about", novalidate: true },
    h("fieldset", { disabled: why !== "" },
      h("legend", { class: "unseen" }, panel.title),
      h("div", { class: "rows" }, panel.fields.map((f) => row(f, given.get(f.name), model)),
        row(CUT, given.get(CUT.name), model)),
      h("div", { class: "go" }, h("button", { type: "submit", class: "run" }, "Run"), halt, status)));
  let turn = 0;
  const keep = (name, value) => {
    form.elements[name].value = value;
    keepAddress(panel, form);
  };
  const run = async () => {
    const mine = ++turn;
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    const show = (parts) => {
      if (mine !== turn) return;
      result.removeAttribute("aria-busy");
      result.replaceChildren(...parts);
    };
    result.setAttribute("aria-busy", "true");
    halt.hidden = !panel.streams;
    status.textContent = "Working…";
    try {
      const values = read(panel, form);
      keepAddress(panel, form);
      const found = await panel.run({ ...values, model: model.name }, model, keep,
        { show, signal });
      if (mine !== turn) return;
      result.replaceChildren(...found.parts.filter(Boolean), receipt(found.receipt),
        command(found.receipt.curl));
      status.textContent = "Done.";
    } catch (error) {
      if (mine !== turn) return;
      result.replaceChildren(problem(error));
      status.textContent = "";
      error.field?.setAttribute("aria-invalid", "true");
      error.field?.focus();
      if (error.status === 401) askKey(run);
    }
    result.removeAttribute("aria-busy");
    halt.hidden = true;
    main.dataset.state = "ready";
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  for (const field of panel.fields.filter((f) => f.live))
    form.elements[field.name].addEventListener("change", run);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  stop = () => {
    turn++;
    controller.abort();
  };
  main.replaceChildren(
    h("h2", { tabindex: "-1" }, panel.title),
    h("p", { id: "about", class: "soft" }, panel.about),
    why ? h("p", { class: "lack" }, why) : "",
    form, result);
  document.title = `${panel.title} · Bertwright playground`;
  main.dataset.panel = panel.name;
  main.dataset.state = "ready";
  for (const link of document.querySelectorAll("#panels a")) {
    if (link.dataset.panel === panel.name) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
  if (!why && panel.fields.some((f) => given.has(f.name))) {
    main.dataset.state = "running";
    run();
  }
}

function problem(error) {
  const status = error instanceof ServerError && error.status ? ` (${error.status})` : "";
  return h("p", { class: "problem", role: "alert" }, h("b", {}, `Not done${status}. `), error.message);
}

/** Show the form for the API key, and repeat the refused request when a key was entered. */
function askKey(again) {
  keyForm.hidden = false;
  keyForm.onsubmit = (event) => {
    event.preventDefault();
    useKey(document.getElementById("key").value);
    again();
  };
  document.getElementById("key").focus();
}

/** Return the address of a panel without values; it names the model unless that is the first. */
function link(name) {
  const query = new URLSearchParams({ model: chooser.value });
  return chooser.value === known[0].name ? `#${name}` : `#${name}?${query}`;
}

function list() {
  const model = current();
  document.getElementById("panels").replaceChildren(...PANELS.filter(offered).map((panel) => {
    const why = lack(panel, model);
    return h("li", {}, h("a", { href: link(panel.name), "data-panel": panel.name,
      class: why ? "lacks" : null, title: why || null,
      // On a phone the panels are a row that scrolls; Tab alone would leave a panel partly hidden.
      onfocus: (event) => event.target.scrollIntoView({ block: "nearest", inline: "nearest" }) },
    panel.title, why ? h("span", { class: "unseen" }, " (not with this model)") : null));
  }));
}

function route() {
  const { panel, given } = address();
  if (location.hash === "#main") return;
  const wanted = given.get("model");
  if (wanted && known.some((m) => m.name === wanted) && chooser.value !== wanted) {
    chooser.value = wanted;
    list();
  }
  const shown = panel ?? usable(current());
  show(shown, given, current());
  if (!shown.fields.some((field) => given.has(field.name))) carry(drafts.get(shown.name));
}

async function start() {
  try {
    known = await models();
    if (known.length === 0) throw new Error("The server has no model.");
  } catch (error) {
    main.replaceChildren(problem(error));
    main.setAttribute("aria-busy", "false");
    main.dataset.state = "ready";
    if (error.status === 401) askKey(start);
    return;
  }
  chooser.replaceChildren(...known.map((m) => h("option", { value: m.name }, m.name)));
  chooser.disabled = known.length < 2;
  main.removeAttribute("aria-busy");
  list();
  route();
}

chooser.addEventListener("change", () => {
  const left = PANELS.find((p) => p.name === main.dataset.panel);
  const panel = lack(left, current()) ? usable(current()) : left;
  list();
  history.replaceState(null, "", link(panel.name));
  // The values that were entered stay, but no request is sent before Run is pressed.
  show(panel, new URLSearchParams(), current());
  carry(drafts.get(panel.name));
});
addEventListener("hashchange", () => {
  route();
  main.querySelector("h2")?.focus();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
start();
