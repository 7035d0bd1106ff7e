/** What S3 answers instead of doing what was asked, in its words. */
export class S3Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }

  get xml(): string {
    return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${this.code}</Code><Message>${this.message}</Message></Error>`;
  }
}

export const preconditionFailed = () =>
  new S3Refusal(412, 'PreconditionFailed', 'At least one of the pre-conditions you specified did not hold');

export const conflict = () =>
  new S3Refusal(
    409,
    'ConditionalRequestConflict',
    'The conditional request cannot succeed due to a conflicting operation against this resource.',
  );

export const noSuchKey = () => new S3Refusal(404, 'NoSuchKey', 'The specified key does not exist.');

export const slowDown = () => new S3Refusal(503, 'SlowDown', 'Please reduce your request rate.');
