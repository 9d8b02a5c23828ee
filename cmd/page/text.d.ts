/** A text of the page that is compiled into the program. */
declare module "*.css" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: an imported text has no other name
  export default text;
}

declare module "*/filter.js" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: an imported text has no other name
  export default text;
}
