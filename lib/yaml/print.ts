import { stringify } from "yaml";

/** A value as YAML text that all parsers read alike: text that looks like a number is quoted. */
export const yamlText = (value: unknown): string => stringify(value, { lineWidth: 0 });
