/** A text of the repository that is compiled into the program. */
declare module "*.yaml" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: an imported text has no other name
  export default text;
}
