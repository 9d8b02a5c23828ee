export { rendered, type TemplateValues } from "../template.ts";
