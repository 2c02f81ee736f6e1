import { render } from 'preact';
import { App } from './shell/App';
import { followLocation } from './shell/route';
import { startTheme } from './shell/theme';
import './shell/tokens.css';
import './shell/base.css';
import './shell/shell.css';
import './widgets/widgets.css';
import './catalog/catalog.css';
import './chart/chart.css';
import './table/table.css';
import './explore/explore.css';
import './query/query.css';

startTheme();
followLocation();
const place = document.getElementById('console');
if (place) render(<App />, place);
