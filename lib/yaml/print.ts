import { stringify } from "yaml";

/**
 * A value as YAML text that all parsers read alike: text that looks like a number is quoted, and what occurs several times is written
 * each time, without anchors, which take minutes to find in a large value.
 */
export const yamlText = (value: unknown): string => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
