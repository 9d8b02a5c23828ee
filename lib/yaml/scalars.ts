import type { SchemaOptions } from "yaml";

const canonicalInteger = /^(?:0|-?[1-9][0-9]{0,14})$/;
const canonicalFraction = /^-?(?:0|[1-9][0-9]{0,7})\.(?:0|[0-9]{0,6}[1-9])$/;
const retypedTag = /:(?:int|float|bool)$/;

/**
 * Reads numbers as numbers only if writing them gives the same text again: 3260, 0.5. Anything else (0777, 1e3,
 * 0x10, .inf, 20 digits) stays text, so that a password or a mode never changes because it looks like a number.
 * Likewise only true and false are booleans.
 */
export const customTags: NonNullable<SchemaOptions["customTags"]> = tags => {
  const kept = tags.filter(tag => typeof tag === "string" || !retypedTag.test(tag.tag));
  const written = { default: true, stringify: ({ value }: { value?: unknown }) => String(value) } as const;
  return [
    ...kept,
    { ...written, tag: "tag:yaml.org,2002:bool", test: /^(?:true|false)$/, resolve: (text: string) => text === "true" },
    { ...written, tag: "tag:yaml.org,2002:int", test: canonicalInteger, resolve: (text: string) => Number(text) },
    { ...written, tag: "tag:yaml.org,2002:float", test: canonicalFraction, resolve: (text: string) => Number(text) },
  ];
};
