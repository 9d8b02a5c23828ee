import type { GenericSchema } from "valibot";
import { aboutOf, fallbackOf, isOptional, shapeOf } from "../../lib/schema/shape.ts";

/** A JSON Schema (draft 2020-12) or a part of one. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** One step of a valibot pipe, as far as it says something that JSON Schema can say too. */
interface Step {
  readonly type: string;
  readonly requirement?: unknown;
  readonly options?: readonly unknown[];
  readonly pipe?: readonly Step[];
  readonly wrapped?: Step;
}

/** All steps, in order, of pipes within pipes and optional keys. */
function stepsOf(schema: GenericSchema): readonly Step[] {
  const flat = (step: Step): readonly Step[] => {
    if (step.wrapped) return flat(step.wrapped);
    return step.pipe ? step.pipe.flatMap((each, index) => (index === 0 ? [...flatFirst(each)] : flat(each))) : [step];
  };
  const flatFirst = (step: Step): readonly Step[] => (step.pipe ? flat(step) : [step]);
  return flat(schema as unknown as Step);
}

const reference = "\\$\\{env:[A-Za-z_]";

/** What the steps demand of a text, or of a reference to the environment that stands for one. */
function textLimits(steps: readonly Step[], expands: boolean): JsonSchema {
  const regex = steps.find(step => step.type === "regex")?.requirement;
  const least = steps.find(step => step.type === "min_length")?.requirement;
  return {
    type: "string",
    ...(typeof least === "number" && { minLength: least }),
    ...(regex instanceof RegExp && { pattern: expands ? `${regex.source}|${reference}` : regex.source }),
  };
}

function numberLimits(steps: readonly Step[]): JsonSchema {
  const limit = (type: string): unknown => steps.find(step => step.type === type)?.requirement;
  return {
    type: steps.some(step => step.type === "integer") ? "integer" : "number",
    ...(limit("min_value") !== undefined && { minimum: limit("min_value") }),
    ...(limit("max_value") !== undefined &&
      limit("max_value") !== Number.MAX_SAFE_INTEGER && { maximum: limit("max_value") }),
  };
}

const orReference = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: "string", pattern: reference }] });

/** The form of a value, without what is said about it. */
function formOf(schema: GenericSchema): JsonSchema {
  const shape = shapeOf(schema);
  const steps = stepsOf(schema);
  const expands = aboutOf(schema).expand !== false;
  switch (shape.kind) {
    case "mapping":
      return mappingForm(schema, shape.keys);
    case "free-mapping":
      return { type: "object", additionalProperties: nullable(jsonSchema(shape.value)) };
    case "list":
      return { type: "array", items: jsonSchema(shape.item) };
    case "words":
      return { enum: shape.words };
    case "flag":
      return orReference({ type: "boolean" });
    case "number":
      return orReference(numberLimits(steps));
    case "text":
      return textLimits(steps, expands);
    case "either":
      return eitherForm(shape.options, steps);
    case "any":
      return {};
  }
}

const scalarTypes: Readonly<Record<string, string>> = { text: "string", number: "number", flag: "boolean" };

/** Several scalar types; where the result is one of a few words, these are offered. */
function eitherForm(options: readonly GenericSchema[], steps: readonly Step[]): JsonSchema {
  const types = options.map(option => scalarTypes[shapeOf(option).kind]).filter(type => type !== undefined);
  const words = steps.find(step => step.type === "picklist")?.options;
  return words ? { anyOf: [{ enum: words }, { type: types }] } : { type: types };
}

function mappingForm(schema: GenericSchema, keys: ReadonlyMap<string, GenericSchema>): JsonSchema {
  const { aliases = {}, ignored = {} } = aboutOf(schema);
  const properties: Record<string, JsonSchema> = {};
  const required: string[] = [];
  const either: JsonSchema[] = [];
  for (const [key, inner] of keys) {
    const { secret, description } = aboutOf(inner);
    properties[key] = jsonSchema(inner);
    const others = Object.keys(aliases).filter(alias => aliases[alias] === key);
    for (const alias of others)
      properties[alias] = { deprecated: true, description: `another spelling of "${key}"; write that` };
    if (secret) {
      others.push(`${key}File`);
      properties[`${key}File`] = { type: "string", description: `path of a file whose content is: ${description}` };
    }
    if (isOptional(inner)) continue;
    if (others.length === 0) required.push(key);
    else either.push({ anyOf: [key, ...others].map(name => ({ required: [name] })) });
  }
  for (const [key, reason] of Object.entries(ignored))
    properties[key] = { deprecated: true, description: `has no effect: ${reason}` };
  return {
    type: "object",
    properties,
    ...(required.length > 0 && { required }),
    ...(either.length > 0 && { allOf: either }),
    additionalProperties: false,
  };
}

/** `key:` with nothing behind it counts as absent. */
function nullable(form: JsonSchema): JsonSchema {
  const { type, enum: words, anyOf } = form;
  if (Array.isArray(words)) return { ...form, enum: [...words, null] };
  if (Array.isArray(anyOf)) return { ...form, anyOf: [...anyOf, { type: "null" }] };
  if (type === undefined) return form;
  return { ...form, type: [...(Array.isArray(type) ? type : [type]), "null"] };
}

/** One key in JSON Schema, with its description, default and example. */
export function jsonSchema(schema: GenericSchema): JsonSchema {
  const { description, unit, absent, example } = aboutOf(schema);
  const optional = isOptional(schema);
  const form = formOf(schema);
  const fallback = fallbackOf(schema);
  const notes = [unit && `unit: ${unit}`, absent && `when absent: ${absent}`].filter(each => each);
  return {
    ...(description !== undefined && {
      description: notes.length > 0 ? `${description} (${notes.join("; ")})` : description,
    }),
    ...(optional ? nullable(form) : form),
    ...(fallback !== undefined && { default: fallback }),
    ...(example !== undefined && { examples: [example] }),
  };
}
