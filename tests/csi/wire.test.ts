import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type DescMethod,
  type DescService,
  getOption,
  ScalarType,
} from "@bufbuild/protobuf";
import * as csi from "../../lib/csi/gen/csi/v1/csi_pb.ts";

const columns = "kind\tname\tmember\tnumber\ttype\tlabel\tnotes";
const [header, ...published] = readFileSync(join(import.meta.dirname, "csi-wire.tsv"), "utf8")
  .replace(/\n$/, "")
  .split("\n");

/** The name as the table writes it: without the package when it is ours, dots between nested names. */
const short = (typeName: string): string => typeName.replace(/^csi\.v1\./, "");

const row = (...cells: (string | number)[]): string => cells.join("\t");

const marks = (...pairs: [boolean, string][]): string =>
  pairs
    .filter(([set]) => set)
    .map(([, mark]) => mark)
    .join(",");

function methodRow(service: DescService, method: DescMethod): string {
  const notes = marks(
    [getOption(service, csi.alpha_service), "alpha_service"],
    [getOption(method, csi.alpha_method), "alpha"],
  );
  const label = { unary: "unary", server_streaming: "server_stream", client_streaming: "?", bidi_streaming: "?" };
  const types = `${short(method.input.typeName)} -> ${short(method.output.typeName)}`;
  return row("service", service.typeName, method.name, "", types, label[method.methodKind], notes);
}

const scalar = (type: ScalarType): string => (ScalarType[type] ?? "?").toLowerCase();

function fieldType(field: DescField): string {
  if (field.fieldKind === "map") {
    const value = field.mapKind === "scalar" ? scalar(field.scalar) : "?";
    return `map<${scalar(field.mapKey)},${value}>`;
  }
  if (field.message) return short(field.message.typeName);
  if (field.enum) return short(field.enum.typeName);
  return field.scalar === undefined ? "?" : scalar(field.scalar);
}

function fieldLabel(field: DescField): string {
  if (field.oneof) return `oneof ${field.oneof.name}`;
  if (field.fieldKind === "map") return "map";
  return field.fieldKind === "list" ? "repeated" : "";
}

function messageRows(message: DescMessage): string[] {
  const name = short(message.typeName);
  const alpha = getOption(message, csi.alpha_message);
  if (message.fields.length === 0) return [row("message", name, "", "", "", "", marks([true, "empty"]))];
  return message.fields.map(field => {
    const notes = marks(
      [alpha, "alpha_message"],
      [getOption(field, csi.csi_secret), "csi_secret"],
      [getOption(field, csi.alpha_field), "alpha"],
    );
    return row("message", name, field.name, field.number, fieldType(field), fieldLabel(field), notes);
  });
}

function enumRows(description: DescEnum): string[] {
  expect(getOption(description, csi.alpha_enum)).toBe(false);
  return description.values.map(value => {
    const notes = marks([getOption(value, csi.alpha_enum_value), "alpha"]);
    return row("enum", short(description.typeName), value.name, value.number, "", "", notes);
  });
}

const withNested = (message: DescMessage): DescMessage[] => [message, ...message.nestedMessages.flatMap(withNested)];

function generatedRows(): string[] {
  const { services, messages, enums } = csi.file_csi_v1_csi;
  const allMessages = messages.flatMap(withNested);
  const allEnums = [...enums, ...allMessages.flatMap(message => message.nestedEnums)];
  return [
    ...services.flatMap(service => service.methods.map(method => methodRow(service, method))),
    ...allMessages.flatMap(messageRows),
    ...allEnums.flatMap(enumRows),
  ];
}

/** What 1.13 took away and reserved, as 1.12 had it: orchestrators that ask by the old capability still read it. */
const kept = [
  row("message", "ListVolumesResponse.VolumeStatus", "volume_condition", 2, "VolumeCondition", "", "alpha"),
  row("message", "ControllerGetVolumeResponse.VolumeStatus", "volume_condition", 2, "VolumeCondition", "", ""),
  row("enum", "ControllerServiceCapability.RPC.Type", "VOLUME_CONDITION", 11, "", "", "alpha"),
  row("message", "NodeGetVolumeStatsResponse", "volume_condition", 2, "VolumeCondition", "", "alpha"),
  row("message", "VolumeCondition", "abnormal", 1, "bool", "", "alpha_message"),
  row("message", "VolumeCondition", "message", 2, "string", "", "alpha_message"),
  row("enum", "NodeServiceCapability.RPC.Type", "VOLUME_CONDITION", 4, "", "", "alpha"),
];

describe("the generated code against the published wire format of CSI 1.13", () => {
  const generated = generatedRows();

  test("the table has the columns that this test reads, and no row twice", () => {
    expect(header).toBe(columns);
    expect(new Set(published).size).toBe(published.length);
    expect(new Set(generated).size).toBe(generated.length);
  });

  test("every published row exists, with number, type, label and marks", () => {
    expect(published.filter(line => !generated.includes(line))).toEqual([]);
  });

  test("everything that exists is published, except for reserved numbers", () => {
    expect(generated.filter(line => !published.includes(line)).sort()).toEqual([...kept].sort());
  });

  test("exactly 22 fields are marked as secrets", () => {
    expect(generated.filter(line => line.includes("csi_secret"))).toHaveLength(22);
  });

  test("the options have the numbers of the specification", () => {
    const numbers = csi.file_csi_v1_csi.extensions.map(
      ({ name, number, extendee }) => `${extendee.typeName}.${name}=${number}`,
    );
    expect(numbers.sort()).toEqual([
      "google.protobuf.EnumOptions.alpha_enum=1060",
      "google.protobuf.EnumValueOptions.alpha_enum_value=1060",
      "google.protobuf.FieldOptions.alpha_field=1060",
      "google.protobuf.FieldOptions.csi_secret=1059",
      "google.protobuf.MessageOptions.alpha_message=1060",
      "google.protobuf.MethodOptions.alpha_method=1060",
      "google.protobuf.ServiceOptions.alpha_service=1060",
    ]);
  });
});
