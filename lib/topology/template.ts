const placeholder = /\$?\{match:([0-9]+)\}/g;

/** The groups that a template names: 0 is the whole match. */
export const groupsIn = (template: string): readonly number[] =>
  [...template.matchAll(placeholder)].map(([, group]) => Number(group));

/** Puts groups in place of `{match:N}` and `${match:N}`, in one pass: what a group holds is not looked at again. */
export const filled = (template: string, groups: readonly string[]): string =>
  template.replace(placeholder, (_, group: string) => groups[Number(group)] ?? "");
