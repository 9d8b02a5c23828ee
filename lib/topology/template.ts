const placeholder = /\$?\{match:([0-9]+)\}/g;

/** The groups that a template names: 0 is the whole match. */
export const groupsIn = (template: string): readonly number[] =>
  [...template.matchAll(placeholder)].map(([, group]) => Number(group));

/** Replaces `{match:N}` and `${match:N}` by groups of the match, in one pass: the text of a group is not replaced again. */
export const filled = (template: string, groups: readonly string[]): string =>
  template.replace(placeholder, (_, group: string) => groups[Number(group)] ?? "");
