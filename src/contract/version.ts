import packageJson from '../../package.json' with { type: 'json' };

/** Of the program, from package.json. */
export const VERSION: string = packageJson.version;
