/** Instants in the reader's own time zone, and lengths of time. Nothing here keeps an offset. */

const dateAndTime = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const exactly = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const timeOnly = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

export function dateTime(instant: string): string {
  return dateAndTime.format(new Date(instant));
}

/** With the zone's name, for a tooltip. */
export function exact(instant: string): string {
  return exactly.format(new Date(instant));
}

export function clock(instant: string): string {
  return timeOnly.format(new Date(instant));
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** "3 minutes ago"; dates older than a month are written out. */
export function ago(instant: string, now: number): string {
  const passed = (now - Date.parse(instant)) / 1000;
  if (Math.abs(passed) < 45) return "just now";
  if (passed > 30 * 86_400) return dateTime(instant);
  for (const [unit, length] of STEPS) {
    if (Math.abs(passed) >= length) return relative.format(-Math.round(passed / length), unit);
  }
  return relative.format(-1, "minute");
}

/** A length of time: "0.8 s", "12 s", "3 min 05 s", "2 h 04 min", "3 d 2 h"; never negative. */
export function duration(seconds: number): string {
  const whole = Math.max(0, seconds);
  if (whole < 10) return `${whole.toFixed(1)} s`;
  if (whole < 60) return `${Math.floor(whole)} s`;
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** Seconds between two instants, or until now while there is no end. */
export function secondsBetween(start: string, end: string | null, now: number): number {
  return Math.max(0, ((end === null ? now : Date.parse(end)) - Date.parse(start)) / 1000);
}
