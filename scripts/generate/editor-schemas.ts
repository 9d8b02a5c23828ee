import * as v from "valibot";
import { commonSchema } from "../../lib/config/common.ts";
import { nodeSchema } from "../../lib/config/node.ts";
import { proxySchema } from "../../lib/config/proxy-schema.ts";
import { modules } from "../../lib/drivers/index.ts";
import type { DriverModule } from "../../lib/drivers/module.ts";
import { optional, record } from "../../lib/schema/parts.ts";
import type { Generated } from "./generated.ts";
import { type JsonSchema, jsonSchema } from "./json-schema.ts";

const folder = "examples/schemas";
const dialect = "https://json-schema.org/draft/2020-12/schema";

const mapping = (value: unknown): JsonSchema => (typeof value === "object" && value !== null ? { ...value } : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** One schema with the common keys and the driver's keys. */
function connectionSchema(module: DriverModule, name: string): JsonSchema {
  const common = jsonSchema(commonSchema);
  const own = jsonSchema(module.schema);
  const required = [...list(common["required"]), ...list(own["required"])];
  const conditions = [...list(common["allOf"]), ...list(own["allOf"])];
  const properties = { ...mapping(common["properties"]), ...mapping(own["properties"]) };
  const driver = { ...mapping(properties["driver"]), enum: [name], examples: [name] };
  return {
    $schema: dialect,
    title: `csimux connection: ${name}`,
    type: "object",
    properties: { ...properties, driver },
    required,
    ...(conditions.length > 0 && { allOf: conditions }),
    additionalProperties: false,
  };
}

/** The main file: `proxy`, `node`, and any defaults for connections. */
function mainSchema(): JsonSchema {
  const driver = v.pipe(v.literal("proxy"), v.metadata({ description: "marks the main file" }));
  const main = jsonSchema(record({ driver, proxy: proxySchema, node: optional(nodeSchema) }));
  return { $schema: dialect, title: "csimux main file", ...main, additionalProperties: true };
}

const text = (schema: JsonSchema): string => `${JSON.stringify(schema)}\n`;

/** examples/schemas: one JSON Schema for each value of `driver:`. */
export function editorSchemas(): Generated {
  const files = new Map([[`${folder}/proxy.json`, text(mainSchema())]]);
  for (const module of modules) {
    for (const name of module.names) files.set(`${folder}/${name}.json`, text(connectionSchema(module, name)));
  }
  return { files, folder };
}
