/** A text of the checkout that is part of the program. */
declare module "*.yaml" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: a text that is imported has no other name
  export default text;
}
