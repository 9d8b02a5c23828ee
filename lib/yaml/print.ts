import { Document, Scalar, visit } from "yaml";
import { escapeHidden, hasHidden } from "../core/visible.ts";

/**
 * A value as YAML text that all parsers read alike: text that looks like a number is quoted, and what occurs several times is written
 * each time, without anchors, which take minutes to find in a large value. Characters that end a line for YAML 1.1, but not for YAML 1.2
 * (YAML 1.1, 5.4 "Line Break Characters"), are escaped: text could become keys for kubectl.
 */
export function yamlText(value: unknown): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === "string" && hasHidden(node.value)) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  return escapeHidden(document.toString({ lineWidth: 0 }));
}
