/** The name of the connection that a file of this name would be. */
export const nameOf = (file: string): string => (file.split("/").at(-1) ?? file).replace(/\.(?:ya?ml|json)$/i, "");
