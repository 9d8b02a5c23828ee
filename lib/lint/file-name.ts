/** The name of the connection in a file of this name. */
export const nameOf = (file: string): string => (file.split("/").at(-1) ?? file).replace(/\.(?:ya?ml|json)$/i, "");
