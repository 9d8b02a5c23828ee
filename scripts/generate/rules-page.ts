import { inOneLine } from "../../lib/lint/format/text.ts";
import type { Rule } from "../../lib/lint/rule.ts";
import { rules } from "../../lib/lint/rules/index.ts";
import { check } from "../../tests/lint/checking.ts";
import type { Example } from "../../tests/lint/examples/files.ts";
import { examples } from "../../tests/lint/examples/index.ts";
import type { Generated } from "./generated.ts";

const introduction = `# What \`csimux validate\` checks

Made by \`scripts/generate.ts\` from the rules in \`lib/lint/rules\`: do not edit. The tests run every example.

- Errors make \`validate\` exit with 1, warnings only with \`--strict\`.
- \`# csimux-ignore <rule>\` at the end of a line, or on a separate line above it, suppresses a finding. It must name the rule.
- \`csimux validate --list-rules\` prints the list.
- The good example of a rule shows only the files that differ from the bad one.
`;

const longest = 1_500;

/** A file, or the beginning of one that is long on purpose. */
function shown(text: string): string {
  if (text.length <= longest) return text.endsWith("\n") ? text : `${text}\n`;
  return `${text.slice(0, text.lastIndexOf("\n", 400))}\n# and so on\n`;
}

const blocks = (example: Example): string =>
  Object.entries(example)
    .map(([file, text]) => `\`${file}\`\n\n\`\`\`yaml\n${shown(text)}\`\`\`\n`)
    .join("\n");

/** The finding of this rule in its bad example, as the command prints it. Throws if there is none. */
function printed(id: string, bad: Example): string {
  // Only the command connects to storage systems.
  if (id === "connection-check") return "";
  const problem = check(bad, true).find(({ rule }) => rule === id);
  if (!problem) throw new Error(`the bad example of the rule ${id} does not break it (tests/lint/examples)`);
  const { file, line, column, severity } = problem;
  const text = `${file}:${line}:${column}: ${severity}: ${inOneLine(problem)}`;
  return `\`\`\`text\n${text} [${id}]\n\`\`\`\n\n`;
}

function chapter(rule: Rule): string {
  const { id, severity, title, why } = rule;
  const found = examples[id];
  if (!found) throw new Error(`tests/lint/examples has no examples of the rule ${id}`);
  const { bad } = found;
  // Files that both examples have are shown once.
  const differing = Object.entries(found.good).filter(([file, text]) => bad[file] !== text);
  const good =
    differing.length > 0 ? `Good:\n\n${blocks(Object.fromEntries(differing))}` : "Good: without the wrong file.\n";
  return `## ${id}\n\n${title} (${severity}). ${why}\n\nBad:\n\n${blocks(bad)}\n${printed(id, bad)}${good}`;
}

/** examples/guide/rules.md */
export function rulesPage(): Generated {
  const contents = (["error", "warning"] as const).map(
    severity =>
      `${severity === "error" ? "Errors" : "Warnings"}:\n\n${rules
        .filter(rule => rule.severity === severity)
        .map(({ id, title }) => `- [${id}](#${id}): ${title}\n`)
        .join("")}\n`,
  );
  const chapters = rules.map(chapter).join("\n");
  return { files: new Map([["examples/guide/rules.md", `${introduction}\n${contents.join("")}${chapters}`]]) };
}
