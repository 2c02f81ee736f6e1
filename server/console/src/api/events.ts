/** Server-Sent Events by `fetch`, which says why the server refuses them; `EventSource` does not. */
import { send } from './http';

export interface ServerEvent {
  name: string;
  data: string;
}

/** Reads events from pieces of text, whose ends need not be ends of lines. */
export class EventParser {
  private rest = '';
  private name = '';
  private data: string[] = [];

  push(text: string): ServerEvent[] {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    return lines.flatMap((line) => this.line(line.replace(/\r$/, '')));
  }

  private line(line: string): ServerEvent[] {
    if (line === '') {
      const event = { name: this.name === '' ? 'message' : this.name, data: this.data.join('\n') };
      const complete = this.data.length > 0;
      this.name = '';
      this.data = [];
      return complete ? [event] : [];
    }
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
    if (field === 'event') this.name = value;
    else if (field === 'data') this.data.push(value);
    return [];
  }
}

/** The events of a stream in the groups in which they arrive, until the stream ends. */
export async function* events(path: string, signal: AbortSignal): AsyncGenerator<ServerEvent[]> {
  const response = await send(path, { headers: { accept: 'text/event-stream' }, signal });
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield parser.push(value);
  }
}
