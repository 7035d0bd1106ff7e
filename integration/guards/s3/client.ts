// Clients of the strict server as an application makes them: the SDK's own settings, retries included.
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';

export function newS3Client(url: string, config: S3ClientConfig = {}): S3Client {
  return new S3Client({
    endpoint: url,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
    ...config,
  });
}
