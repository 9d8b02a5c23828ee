import { type Html, html, type Part } from "./html.ts";
import { signs, type Tone } from "./map.ts";

/** A part of the page with a heading. */
export interface Section {
  readonly id: string;
  readonly title: string;
  readonly text: Html;
}

/** A section, unless it has no content. */
export const section = (id: string, title: string, content: Part): Section | undefined =>
  content === undefined || content === false
    ? undefined
    : {
        id,
        title,
        text: html`<section><h2 id="${id}" tabindex="-1">${title}</h2>${content}</section>`,
      };

/** Content that may be wider than the screen: it scrolls by itself, also by keyboard. */
export const wide = (label: string, content: Html): Html =>
  html`<div class="wide" role="region" aria-label="${label}" tabindex="0">${content}</div>`;

/** A cell, with the class of its column: "number", "minor" (omitted on narrow screens), "least" (only on phones). */
export interface Column {
  readonly title: string;
  readonly kind?: string;
}

/** A table; the first cell of each row is its heading. The filter also finds a row by its key. */
export const table = (
  label: string,
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  keys: readonly string[] = [],
): Html =>
  wide(
    label,
    html`<table><thead><tr>${columns.map(({ title, kind }) => html`<th scope="col" class="${kind}">${title}</th>`)}</tr></thead><tbody>${rows.map(
      (row, index) =>
        html`<tr data-row="${keys[index]}">${row.map((cell, column) =>
          column === 0 ? html`<th scope="row">${cell}</th>` : html`<td class="${columns[column]?.kind}">${cell}</td>`,
        )}</tr>\n`,
    )}</tbody></table>`,
  );

/** Text with the colour and the sign of a state. */
export const toned = (tone: Tone, text: string): Html =>
  html`<span class="${tone}"><span aria-hidden="true">${signs[tone]}</span> ${text}</span>`;

/** The text for what is not known. */
export const unknown: Html = html`<span class="dim">unknown</span>`;
