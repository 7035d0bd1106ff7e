// Versions of programs, compared number by number: 3.4.9 is older than 3.4.23.

/**
 * The first version number in what a program prints about itself.
 *
 * @param {string} text
 * @returns {string | undefined}
 */
export const versionIn = (text) => /\d+(?:\.\d+)+/.exec(text)?.[0];

/**
 * Negative when `a` is older than `b`, 0 when they are equal; a missing part counts as 0.
 *
 * @param {string} a
 * @param {string} b
 */
export function compareVersions(a, b) {
  const left = a.split('.').map(Number);
  const right = b.split('.').map(Number);
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * @param {string} version
 * @param {string} lowest
 */
export const atLeast = (version, lowest) => compareVersions(version, lowest) >= 0;
