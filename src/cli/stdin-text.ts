import { type CliContext, CliExit, EXIT } from './context.ts';

/** All of stdin. @param what  for the error: `a message` */
export async function readStdinText({ stdin }: CliContext, what: string, charsMax: number): Promise<string> {
  let text = '';
  stdin.setEncoding('utf8');
  for await (const chunk of stdin) {
    text += String(chunk);
    if (text.length > charsMax) throw new CliExit(EXIT.failure, `${what} has at most ${charsMax} characters`);
  }
  return text;
}
