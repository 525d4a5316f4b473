/** Numbers as people read them. */

const plain = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });
const short = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

export function count(value: number): string {
  return plain.format(value);
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export function bytes(value: number): string {
  let [size, unit] = [value, 0];
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${short.format(size)} ${UNITS[unit] ?? ""}`;
}

export function memory(mebibytes: number): string {
  return mebibytes >= 1024
    ? `${short.format(mebibytes / 1024)} GiB`
    : `${plain.format(mebibytes)} MiB`;
}

export function percent(fraction: number): string {
  return `${Math.round(fraction * 100)} %`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
