import type { GenericSchema } from "valibot";
import { shapeOf } from "./shape.ts";

/** A value converted to the type of its schema, with the words for the warning. */
export interface Converted {
  readonly value: unknown;
  /** The written type, the intended type, and how to write it: for people. */
  readonly was: string;
  readonly is: string;
  readonly fix: string;
}

/** Converts text to number or boolean and vice versa if only one meaning is possible; undefined otherwise. */
export function converted(schema: GenericSchema, value: unknown): Converted | undefined {
  const shape = shapeOf(schema);
  if (shape.kind === "text" && (typeof value === "number" || typeof value === "boolean"))
    return asText(String(value), value);
  if (shape.kind === "words") {
    const word = shape.words.find(each => String(each) === String(value));
    if (word === undefined || word === value) return undefined;
    return typeof word === "string"
      ? asText(word, value)
      : { value: word, was: "text", is: "a number", fix: "remove the quotes" };
  }
  if (typeof value !== "string") return undefined;
  if (shape.kind === "number" && /^-?[0-9]{1,15}(?:\.[0-9]{1,6})?$/.test(value)) {
    return { value: Number(value), was: "text", is: "a number", fix: `write ${Number(value)} without quotes` };
  }
  if (shape.kind === "flag" && /^(?:true|false)$/i.test(value)) {
    const word = value.toLowerCase();
    return { value: word === "true", was: "text", is: "true or false", fix: `write ${word} without quotes` };
  }
  if (shape.kind === "list" && value === "") return { value: [], was: "empty text", is: "a list", fix: "write []" };
  return undefined;
}

const asText = (value: string, was: unknown): Converted => ({
  value,
  was: typeof was === "number" ? "a number" : "true or false",
  is: "text",
  fix: "put the value in quotes",
});
