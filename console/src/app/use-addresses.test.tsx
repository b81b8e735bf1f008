// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { Link, MemoryRouter } from 'react-router';
import { afterEach, expect, it } from 'vitest';
import { useAddresses } from './use-addresses';

const PAGES = [{ name: 'discover', keepsAddress: true }, { name: 'dashboard', keepsAddress: true }, { name: 'tasks' }];

function Navigation() {
  const addressOf = useAddresses(PAGES);
  return (
    <>
      {PAGES.map(({ name }) => (
        <Link key={name} to={addressOf(name)}>
          {name}
        </Link>
      ))}
      <Link to="/discover/event?id=1">event</Link>
    </>
  );
}

afterEach(cleanup);

const leadsTo = (name: string) => screen.getByText(name).getAttribute('href');

it('restores the last URL of a page, and resets the page that is open', () => {
  const asked = '/discover?q=severity%3A+critical&f=%5B%7B%22pin%22%3Atrue%7D%5D';
  render(
    <MemoryRouter initialEntries={[asked]}>
      <Navigation />
    </MemoryRouter>,
  );
  expect(leadsTo('discover')).toBe('/discover');
  fireEvent.click(screen.getByText('dashboard'));
  expect(leadsTo('discover')).toBe(asked);
  fireEvent.click(screen.getByText('tasks'));
  expect(leadsTo('discover')).toBe(asked);
  fireEvent.click(screen.getByText('event'));
  expect(leadsTo('discover')).toBe(asked);
  expect(leadsTo('tasks')).toBe('/tasks');
  fireEvent.click(screen.getByText('discover'));
  fireEvent.click(screen.getByText('discover'));
  fireEvent.click(screen.getByText('tasks'));
  expect(leadsTo('discover')).toBe('/discover');
});
