// PostgreSQL's extended protocol, as far as the guard's own statements need it: parameters and rows are text.
// https://www.postgresql.org/docs/current/protocol-message-formats.html

/** Makes a statement anew under a name; `''` is the one without. To close what is not there is no error. */
export function parseMessage(name: string, text: string): Buffer {
  const close = name === '' ? [] : [message('C', Buffer.from('S'), text0(name))];
  return Buffer.concat([...close, message('P', text0(name), text0(text), int16(0))]);
}

/** Carries the statement out, whatever it was prepared under. */
export function executeMessage(name: string, values: readonly string[]): Buffer {
  const parameters = values.map((value) => {
    const bytes = Buffer.from(value);
    return Buffer.concat([int32(bytes.length), bytes]);
  });
  const bind = [text0(''), text0(name), int16(0), int16(values.length), ...parameters, int16(0)];
  return Buffer.concat([message('B', ...bind), message('E', text0(''), int32(0))]);
}

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

function text0(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}
