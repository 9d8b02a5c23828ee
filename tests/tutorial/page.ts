import { readFileSync } from "node:fs";

/** A section of a page with commands. */
export interface Section {
  readonly title: string;
  /** The text of its blocks, as a person copies it. */
  readonly commands: string;
  /** The text of the blocks that are for the storage host. */
  readonly onHost: string;
}

/** The text of a page of the guide, or of the README. */
export const pageText = (page: string): string =>
  readFileSync(
    new URL(page === "README" ? "../../README.md" : `../../examples/guide/${page}.md`, import.meta.url),
    "utf8",
  );

const blocks = (text: string, kind: string): string =>
  [...text.matchAll(new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map(([, block = ""]) => block).join("");

/** The sections of such a page that have commands, in order. */
export const sectionsOf = (page: string): readonly Section[] =>
  pageText(page)
    .split(/^## /m)
    .slice(1)
    .map(text => ({
      title: text.slice(0, text.indexOf("\n")),
      commands: blocks(text, "sh"),
      onHost: blocks(text, "sh host"),
    }))
    .filter(({ commands, onHost }) => commands !== "" || onHost !== "");
