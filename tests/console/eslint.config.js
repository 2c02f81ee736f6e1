// The rules of the console, with its packages: `npm ci` there comes first.
export { default } from '../../server/console/eslint.config.js';
