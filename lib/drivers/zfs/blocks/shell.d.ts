/** A program for the storage host that is compiled into the executable. */
declare module "*.sh" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: an imported text has no other name
  export default text;
}
