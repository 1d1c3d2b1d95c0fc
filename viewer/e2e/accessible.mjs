// Accessibility checks of the page in a browser, for screen readers, keyboards and weak eyes: names, roles
// with their owned elements, contrast. With AXE=path of axe-core's axe.min.js, its rules run as well. It is
// MPL-2.0, so no dependency of this project.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const { AXE } = process.env;
/** Impacts of axe-core findings that count, in addition to WCAG levels A and AA. */
const SERIOUS = ["serious", "critical"];

/** Fails with every fault that the page has as it is. */
export async function assertAccessible(page, where) {
  assert.deepEqual(await page.evaluate(faults), [], where);
  if (!AXE) return;
  // As a script of the debugger: the page's own policy lets nothing in.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(readFileSync(AXE, "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.filter((one) => SERIOUS.includes(one.impact))
    .flatMap((one) => one.nodes.map((node) => `axe ${one.id}: ${node.html.slice(0, 120)} (${node.failureSummary.replaceAll("\n", " ").slice(0, 160)})`));
  assert.deepEqual(told, [], where);
}

/** Runs in the page. */
function faults() {
  const seen = (one) => one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !one.closest("[aria-hidden=true]");
  const of = (one) => one.outerHTML.slice(0, 110);
  const out = [];

  /** The accessible name, as far as this page uses the ways to define one. */
  function nameOf(one) {
    const by = (one.getAttribute("aria-labelledby") ?? "").split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
    const label = one.labels?.length ? [...one.labels].map((each) => each.textContent).join(" ") : "";
    return by || one.getAttribute("aria-label") || label || one.textContent.trim() || one.getAttribute("title") || one.getAttribute("placeholder") || "";
  }
  const USABLE = "a[href], button, input, select, textarea, summary, canvas[tabindex], [role=tab], [role=separator], [role=option], [role=img], [tabindex='0']";
  for (const one of [...document.querySelectorAll(USABLE)].filter(seen)) {
    if (nameOf(one).trim() === "") out.push(`no name: ${of(one)}`);
    const inner = one.querySelector("a[href], button, input, select, textarea");
    if (inner && !["tabpanel", "application"].includes(one.getAttribute("role") ?? "") && one.tagName !== "DIALOG") out.push(`one control in another: ${of(one)}`);
  }

  // Ids that are referred to exist, and once.
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) out.push(`the id ${id} is there twice`);
  for (const name of ["aria-controls", "aria-labelledby", "aria-activedescendant", "aria-describedby", "for"]) {
    for (const one of document.querySelectorAll(`[${name}]`)) {
      // A collapsed element may be absent.
      if (name === "aria-controls" && one.getAttribute("aria-expanded") === "false") continue;
      for (const id of one.getAttribute(name).split(/\s+/)) if (id && !document.getElementById(id)) out.push(`${name} names ${id}, which is not there: ${of(one)}`);
    }
  }

  // Roles stand where they mean something.
  for (const [child, parent] of [["tab", "tablist"], ["option", "listbox"]]) {
    for (const one of document.querySelectorAll(`[role=${child}]`)) if (!one.closest(`[role=${parent}]`)) out.push(`${child} outside of a ${parent}: ${of(one)}`);
  }
  for (const one of document.querySelectorAll("li")) if (!["UL", "OL"].includes(one.parentElement?.tagName)) out.push(`li outside of a list: ${of(one)}`);
  for (const one of document.querySelectorAll("ul > :not(li), ol > :not(li)")) out.push(`no li in a list: ${of(one)}`);
  for (const one of document.querySelectorAll("dl > :not(dt):not(dd):not(div)")) out.push(`neither dt nor dd in a dl: ${of(one)}`);
  for (const one of document.querySelectorAll("[tabindex]")) if (Number(one.getAttribute("tabindex")) > 0) out.push(`an order of its own: ${of(one)}`);
  for (const one of document.querySelectorAll("table th")) if (!one.hasAttribute("scope")) out.push(`a head of neither row nor column: ${of(one)}`);
  if (document.querySelectorAll("main").length !== 1) out.push("not one main region");
  if (document.querySelectorAll("h1").length !== 1) out.push("not one heading of the page");
  if (!document.documentElement.lang) out.push("no language");
  if (document.title.trim() === "") out.push("no title");
  // What scrolls can be reached without a mouse.
  for (const one of [...document.querySelectorAll("*")].filter(seen)) {
    const style = getComputedStyle(one);
    const scrolls = /auto|scroll/.test(style.overflowY) && one.scrollHeight > one.clientHeight + 1 && one.clientHeight > 0;
    if (scrolls && one.tabIndex < 0 && !one.querySelector("a[href], button, input, select, summary, [tabindex='0']")) out.push(`scrolls, but not by key: ${of(one)}`);
  }

  // Words on their ground: 4.5 to 1, of large ones 3.
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const over = (top, ground) => top.slice(0, 3).map((part, at) => part * (top[3] ?? 1) + ground[at] * (1 - (top[3] ?? 1)));
  function groundOf(one) {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(rgb(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((ground, layer) => over(layer, ground), [255, 255, 255]);
  }
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    const isWords = walker.currentNode.textContent.trim() !== "" && !["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(one?.tagName ?? "");
    if (!isWords || !seen(one) || one.matches(":disabled, :disabled *") || one.closest("label:has(:disabled)")) continue;
    const style = getComputedStyle(one);
    const ground = groundOf(one);
    const [a, b] = [light(over(rgb(style.color), ground)), light(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (contrast < wanted) out.push(`contrast ${contrast.toFixed(2)} of "${walker.currentNode.textContent.trim().slice(0, 40)}" in ${of(one)}`);
  }
  return [...new Set(out)].slice(0, 20);
}
