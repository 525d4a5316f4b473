/** The layout's own thread: a large graph never makes the page stand still. */
import type { LayoutAnswer, LayoutRequest } from "./layouts";
import { layered } from "./sugiyama";

self.onmessage = ({ data }: MessageEvent<LayoutRequest>) => {
  let answer: LayoutAnswer;
  try {
    answer = { id: data.id, placed: layered(data.topology, data.direction) };
  } catch (error) {
    answer = { id: data.id, error: error instanceof Error ? error.message : String(error) };
  }
  self.postMessage(answer);
};
