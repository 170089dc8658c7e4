// RESP, the protocol of Redis: commands as bytes, and replies as values.

const encoder = new TextEncoder();
export const encode = text => encoder.encode(text);

// commands are the bytes of a list of commands, whose words are texts, numbers or bytes.
export function commands(list) {
  const parts = [];
  for (const words of list) {
    parts.push(encode(`*${words.length}\r\n`));
    for (const word of words) {
      const data = word instanceof Uint8Array ? word : encode(String(word));
      parts.push(encode(`$${data.length}\r\n`), data, encode("\r\n"));
    }
  }
  return new Blob(parts);
}

export class ReplyError extends Error {}

// A reader gives the replies in some bytes one after another: bytes for strings, numbers, null, booleans, arrays, Map,
// Set (as an array), and ReplyError for an error. It throws a RangeError where the bytes end within a reply.
export class Reader {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  line() {
    let end = this.at;
    while (end < this.data.length && this.data[end] !== 13) end++;
    if (end + 1 >= this.data.length) throw new RangeError("the reply is cut");
    const text = new TextDecoder().decode(this.data.subarray(this.at, end));
    this.at = end + 2;
    return text;
  }

  bytes(n) {
    if (this.at + n + 2 > this.data.length) throw new RangeError("the reply is cut");
    const part = this.data.subarray(this.at, this.at + n);
    this.at += n + 2;
    return part;
  }

  next() {
    const line = this.line(), kind = line[0], rest = line.slice(1), n = Number(rest);
    switch (kind) {
      case "+": return encode(rest);
      case "-": return new ReplyError(rest);
      case ":": return Number.isSafeInteger(n) ? n : BigInt(rest);
      case "_": return null;
      case "#": return rest === "t";
      case ",": return n;
      case "(": return BigInt(rest);
      case "!": return new ReplyError(new TextDecoder().decode(this.bytes(n)));
      case "=": return this.bytes(n).subarray(4);
      case "$": return n < 0 ? null : this.bytes(n);
      case "%": return new Map(Array.from({ length: n }, () => [this.next(), this.next()]));
      case "|": for (let i = 0; i < 2 * n; i++) this.next(); return this.next();
      case "*": case "~": case ">": return n < 0 ? null : this.items(n);
      default: throw new RangeError("the server replies something unknown");
    }
  }

  items(n) {
    const all = [];
    for (let i = 0; i < n; i++) all.push(this.next());
    return all;
  }
}
