// One line of JSON for each test that ended, for whoever runs node:test from another framework.
// biome-ignore lint/style/noDefaultExport: node:test takes a reporter so
export default async function* jsonReporter(source) {
  const path = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') path.splice(data.nesting, path.length, data.name);
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details.type === 'suite') continue;
    const suite = path.slice(0, data.nesting).join(' > ');
    const passed = type === 'test:pass';
    const ending = passed && data.skip !== undefined ? 'skipped' : passed ? 'passed' : 'failed';
    const error = data.details.error?.cause ?? data.details.error;
    yield `${JSON.stringify({ suite, name: data.name, ending, error: error?.stack ?? String(error ?? '') })}\n`;
  }
}
